"""The journal: one line for each thing that happens to an order, written by workers, followed by the backend.

Workers append to one file. A line is one system call, which no other line can be mixed into; it takes microseconds,
blocks no loop, and is kept when the worker is killed the moment after. Between machines its place would be taken by
whatever collects logs. Times are CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple


class Event(StrEnum):
    """What happens to an order."""

    #: It was published; the broker has confirmed it.
    PUBLISHED = "published"
    #: A worker begins with it.
    BEGAN = "began"
    #: The merchant is called.
    CALLED = "called"
    #: An attempt failed; there will be another one.
    FAILED = "failed"
    #: The merchant has it.
    DONE = "done"
    #: The merchant does not want it.
    REFUSED = "refused"
    #: It was given up, and is kept with the dead letters.
    DEAD = "dead"
    #: The customer took it back before the merchant was called.
    CANCELLED = "cancelled"
    #: It was too late when its turn came: the merchant was not called, and the customer has the money back.
    REFUNDED = "refunded"


#: Each order ends in exactly one of these.
TERMINAL: Final = frozenset((Event.DONE, Event.REFUSED, Event.DEAD, Event.CANCELLED, Event.REFUNDED))


class Entry(NamedTuple):
    """A line.

    Args:
        at_ns: CLOCK_MONOTONIC.
        event: an `Event`.
        order, merchant: whose.
        pid: who tells.
        remark: why, in a few words; "" = nothing to say.
    """

    at_ns: int
    event: str
    order: str
    merchant: str
    pid: int
    remark: str = ""


class Journal:
    """Writes lines. May be used from several threads, green or not, and after a fork.

    Args:
        path: made when missing.
    """

    def __init__(self, path: str | Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def tell(self, event: Event, order: str, merchant: str, remark: str = "", at_ns: int = 0) -> None:
        """One line; now, unless `at_ns` says when."""
        entry = [at_ns or time.monotonic_ns(), event.value, order, merchant, os.getpid(), remark[:500]]
        os.write(self._fd, json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        """Closes the file."""
        os.close(self._fd)


class Follower:
    """Reads a journal as it grows.

    Args:
        path: made when missing.
        from_end: leave out what stands in it already.
    """

    def __init__(self, path: str | Path, *, from_end: bool = False) -> None:
        Path(path).touch()
        self._file = Path(path).open("rb")
        self._rest = b""
        if from_end:
            self._file.seek(0, os.SEEK_END)

    def new(self) -> list[Entry]:
        """The lines since the last call; a line that is half written waits."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        return [Entry(*json.loads(line)) for line in lines]

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def ends(entries: list[Entry]) -> Mapping[str, list[Entry]]:
    """Order -> its terminal lines: one, if all is well."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.event in TERMINAL:
            found.setdefault(entry.order, []).append(entry)
    return found
