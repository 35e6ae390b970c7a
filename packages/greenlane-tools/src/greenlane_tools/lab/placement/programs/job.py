"""The input of a run, and its result: both JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from greenlane_tools.lab import processes
from greenlane_tools.lab.placement.functions import FUNCTIONS, Amounts


@dataclass(frozen=True)
class Job:
    """One run."""

    # "" = nobody calls, for `seconds`.
    function: str
    contender: str
    loop: str
    callers: int
    # Calls before those that count, and calls that count.
    warm: int
    calls: int
    iterations: int
    passes: int
    model: str
    # Where the result goes.
    result: str
    # Of a run without callers.
    seconds: float = 1.0

    @classmethod
    def read(cls, text: str) -> Job:
        """The job of that JSON text."""
        return cls(**json.loads(text))

    def call(self) -> tuple[Any, tuple[Any, ...]]:
        """The function and its arguments."""
        return FUNCTIONS[self.function].made(Amounts(self.iterations, self.passes, self.model))


@dataclass
class Result:
    """What a run has counted."""

    # From when a caller's former call had ended to when this one has, ms.
    took_ms: list[float] = field(default_factory=list)
    # How much later than 1 ms the heartbeat came back, ms.
    late_ms: list[float] = field(default_factory=list)
    errors: int = 0
    first_error: str = ""
    # CPU of all processes of the run, of this one's loop included.
    cpu_ns: int = 0
    # From the first counted call to the last one's end.
    seconds: float = 0.0
    bytes_in_band: int = 0
    bytes_out_of_band: int = 0
    # Of `greenlane`: where its calls went in the end, and why, in its words.
    chosen: str = ""
    reason: str = ""

    def leave(self, path: str) -> None:
        """Write it; the file appears whole."""
        unfinished = Path(f"{path}.part")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(path)


def end_all(number: int = 0, frame: object = None) -> None:
    """End this process and all that it started, at once: pools and daemons have nothing left to say."""
    for pid in processes.descendants(os.getpid())[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(128 + number if number else 0)
