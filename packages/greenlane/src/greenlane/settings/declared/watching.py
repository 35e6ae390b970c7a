"""How a process is watched: its control socket and its recording."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane.setting import declare
from greenlane.settings.declared.patterns import ANY_DIRECTORY

__all__ = ["WatchSettings"]


@dataclass(frozen=True)
class WatchSettings:
    """Control and recording."""

    control_dir: str = declare(
        "", "Directory of the control sockets that `greenlane top` and `greenlane mode` use; '' = off.",
        pattern=ANY_DIRECTORY, reason="Greenlane opens nothing that it was not told to.",
    )  # fmt: skip
    record_folder: str = declare(
        "", "Folder into which the process records; '' = it does not. `greenlane record` sets it for its command.",
        pattern=ANY_DIRECTORY, reason="Greenlane writes nowhere that it was not told to.",
    )  # fmt: skip
    record_on: bool = declare(
        True, "Whether recording is on from the start; else it waits for `greenlane record --on`.",
        reason="Who names a folder wants a recording.",
    )  # fmt: skip
    record_max_mb: float = declare(
        512.0, "Most that the segments in `record_folder` may hold, all processes together; the oldest go first.",
        low=1, high=1_000_000, reason="Arbitrary; hours of a busy service, and no disk is filled by a forgotten one.",
    )  # fmt: skip
    record_stacks: bool = declare(
        True, "Sample the stack of who runs while somebody waits.",
        reason="Without the line a culprit is only a route.",
    )  # fmt: skip
