"""How what was learned survives a restart."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane.setting import declare
from greenlane.settings.declared.patterns import ANY_FILE

__all__ = ["LearnedSettings"]


@dataclass(frozen=True)
class LearnedSettings:
    """The file of what was learned."""

    learned_file: str = declare(
        "", "File in which learned bursts survive a restart; '' = none.",
        pattern=ANY_FILE, reason="Greenlane writes nowhere that it was not told to.",
    )  # fmt: skip
    learned_save_s: float = declare(
        30.0, "Seconds between two writes of `learned_file`.",
        unit="s", low=0.1, high=86_400, reason="Arbitrary; a crash loses half a minute of what is learned in a second.",
    )  # fmt: skip
