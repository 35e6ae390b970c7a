"""What goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane.settings.setting import declare
from greenlane_tools.lab.scenario.patterns import MAYBE_NAME

__all__ = ["Fault"]


@dataclass(frozen=True)
class Fault:
    """`[[fault]]`: done to the processes for real, in every run, at the same time for each contender."""

    kind: str = declare(
        "stall",
        "stall: SIGSTOP to all processes of the service, SIGCONT after `seconds`. kill: SIGKILL to one worker (the "
        "oldest child of the process that was started; where it has none, that process). slow: what the service says "
        "is held back by `delay_ms`, for `seconds`. refuse: new connections to it are refused, for `seconds`.",
        reason="the commonest: a garbage collection, a swapped host, a paused container",
        choices=("stall", "kill", "slow", "refuse"),
    )
    at_s: float = declare(0.0, "When, from the start of its phase.", reason="at once", unit="s", low=0.0, high=3_600.0)
    phase: str = declare("", "Its phase; nothing = the first.", reason="most loads have one", pattern=MAYBE_NAME)
    seconds: float = declare(
        1.0, "How long it lasts; a kill has no length.", reason="visible in a p99 of 100 s", unit="s",
        low=0.001, high=600.0,
    )  # fmt: skip
    delay_ms: float = declare(
        500.0, "Of slow: by how much each piece of an answer is held back.", reason="beyond most deadlines",
        unit="ms", low=0.1, high=60_000.0,
    )  # fmt: skip
    service: str = declare(
        "", "Whose; nothing = the one that the load asks.", reason="it is in question", pattern=MAYBE_NAME
    )
