"""Functions that tests place: module-level, so that another process can have them by name. Files say what happened."""

from __future__ import annotations

import time
from pathlib import Path

from greenlane import checkpoint

#: Deadlines to try in turn: on a slow machine a call may not have begun when the first ones come.
SPANS_MS = (20, 100, 500, 3000)
#: No test waits longer for another thread or process.
LONGEST_S = 10.0


def echo(*args: object, **kwargs: object) -> tuple[object, ...]:
    return (*args, *kwargs.items())


def burn(cpu_ms: float) -> float:
    """Use so much of this thread's CPU in pure Python."""
    until = time.thread_time() + cpu_ms / 1000
    value = 0
    while time.thread_time() < until:
        for number in range(200):
            value += number * number
    return cpu_ms


def fail(kind: type[BaseException], *args: object) -> None:
    raise kind(*args)


def held(begun: Path, let_go: Path) -> str:
    """Compute until a file appears.

    It looks rarely: each look gives the GIL away for a moment, and who waits for it begins to wait again without asking
    for it, for seconds.
    """
    begun.touch()
    until = time.monotonic() + LONGEST_S
    while not let_go.exists():
        burn(20)
        assert time.monotonic() < until
    return "let go"


def until_told(begun: Path, met: Path) -> None:
    """Compute until a checkpoint raises, and write down what it raised."""
    begun.touch()
    until = time.monotonic() + LONGEST_S
    try:
        while time.monotonic() < until:
            burn(1)
            checkpoint()
    except BaseException as error:
        met.write_text(type(error).__name__)
        raise


def touch(path: Path) -> None:
    path.touch()


def appears(path: Path) -> None:
    """Wait for a file; its absence fails the test."""
    until = time.monotonic() + LONGEST_S
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} did not appear"
        time.sleep(0.002)
