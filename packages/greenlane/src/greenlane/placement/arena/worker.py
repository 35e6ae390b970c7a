"""A worker process as its parent sees it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import posix  # gevent replaces what `os` has of it
import signal
import time
from typing import Final

from greenlane._native import Channel, Segment
from greenlane.errors import WorkerDied
from greenlane.placement import Call
from greenlane.placement.arena.homes import Home
from greenlane.placement.arena.parcel import Parcel
from greenlane.placement.arena.protocol import BEGUN, CANCEL, Inbox, Outbox, last_line
from greenlane.threads.unpatched import allocate_lock

__all__ = ["Crossed", "ArenaCall", "ArenaWorker"]

# Arbitrary: faulthandler's first lines say which signal and where.
_CRASH_BYTES: Final = 4096
_LOG: Final = logging.getLogger("greenlane")
_TELLING: Final = "tell a caller that its placed call has ended"


@dataclasses.dataclass(slots=True, eq=False)
class ArenaCall:
    """A call on its way through an executor."""

    call: Call
    parcel: Parcel
    name: str
    # Never used twice in a process; counts from 1.
    call_id: int
    # Where its caller waits.
    home: Home
    # Given to a worker, at least once.
    begun: bool = False
    # To which.
    worker: ArenaWorker | None = None
    # When its caller left although it runs, monotonic; 0 = it has not.
    left_ns: int = 0

    # A callback must not raise. One that does is its caller's trouble, not that of the calls after it.

    def finish(self, result: object) -> None:
        """End the call with a result."""
        try:
            self.call.finish(result)
        except Exception:
            _LOG.exception(_TELLING)

    def fail(self, error: BaseException) -> None:
        """End the call with an error."""
        try:
            self.call.fail(error)
        except Exception:
            _LOG.exception(_TELLING)

    def expire(self) -> None:
        """End the call at its deadline."""
        try:
            self.call.expire()
        except Exception:
            _LOG.exception(_TELLING)


@dataclasses.dataclass(frozen=True)
class Crossed:
    """What has crossed to some workers and back; see `executor.ArenaStats`."""

    overflows: int = 0
    in_band_bytes: int = 0
    out_of_band_bytes: int = 0

    def __add__(self, other: Crossed) -> Crossed:
        """Of both."""
        return Crossed(
            self.overflows + other.overflows,
            self.in_band_bytes + other.in_band_bytes,
            self.out_of_band_bytes + other.out_of_band_bytes,
        )


class ArenaWorker:
    """Channel, memory and process. The executor decides which caller uses which; nothing here waits."""

    def __init__(
        self,
        pid: int,
        channel: Channel,
        files: Channel,
        control: Segment,
        outbox: Outbox,
        inbox: Inbox,
        crash: int,
    ) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.channel = channel
        self.outbox = outbox
        self.inbox = inbox
        self.started_ns = time.monotonic_ns()
        self.ready_ns = 0
        # What it runs.
        self.order: ArenaCall | None = None
        # Where its answers ring.
        self.home: Home | None = None
        self.calls = 0
        # It gets no more calls; and has none.
        self.retiring = False
        self.free = False
        # Why it could not start: what its warm-up raised.
        self.start_error: BaseException | None = None
        # The reader of the channel has it.
        self.reading = allocate_lock()
        self._files = files
        self._control = control
        self._crash = crash

    def crossed(self) -> Crossed:
        """What has gone to it and come back."""
        out, into = self.outbox, self.inbox
        return Crossed(
            out.overflows + into.overflows,
            out.in_band_bytes + into.in_band_bytes,
            out.out_of_band_bytes + into.out_of_band_bytes,
        )

    def has_begun(self, order: ArenaCall) -> bool:
        """Whether it has taken up this call; it may have died before."""
        return self._control.load(BEGUN) == order.call_id

    def tell_cancelled(self, order: ArenaCall) -> None:
        """Let this call end at its next checkpoint."""
        self._control.store(CANCEL, order.call_id)

    def kill(self) -> None:
        """SIGKILL, to this process and no other that may have got its number."""
        with contextlib.suppress(OSError):  # gone, or buried
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def reap(self) -> int | None:
        """Take its exit status, as `os.waitstatus_to_exitcode`; None = somebody else in this process has taken it."""
        try:
            _, status = posix.waitpid(self.pid, 0)
        except ChildProcessError:
            return None
        return os.waitstatus_to_exitcode(status)

    def died(self, code: int | None, attempted: str) -> WorkerDied:
        """Say how it ended."""
        return WorkerDied(attempted, pid=self.pid, code=code, last_line=self.last_words())

    def last_words(self) -> str:
        """Where it crashed, if it did and could tell; else the last line on its stderr."""
        crash = os.pread(self._crash, _CRASH_BYTES, 0).decode(errors="replace").splitlines()
        if crash:
            where = next((line.strip() for line in crash if line.startswith("  File ")), "")
            return f"{crash[0]}; {where}" if where else crash[0]
        return last_line(self._control)

    def close(self) -> None:
        """Close descriptors; views of results keep their memory. The process ends by itself when it waits."""
        self.channel.close()
        self._files.close()
        for fd in (self.pidfd, self._crash):
            if fd >= 0:
                os.close(fd)
        self.pidfd = self._crash = -1
