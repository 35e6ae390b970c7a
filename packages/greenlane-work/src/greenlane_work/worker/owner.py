"""Whoever owns the channel to the broker: the one thread that receives and acknowledges.

What other threads have to tell the broker they post; the owner is woken at once, it does not look around now and then.
With green threads it is a greenlet of its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from select import POLLIN
from typing import Any, Final, Protocol

from greenlane.fork_warning import mark_thread
from greenlane.real import allocate_lock, get_ident, poll, start_new_thread

__all__ = ["GreenOwner", "Owner", "ThreadOwner"]

Call = Callable[[], object]

_log = logging.getLogger("greenlane.work")

#: A wait for nothing in particular.
_LONG_S: Final = 3600.0


class Owner(Protocol):
    """Does what is posted on the thread of the channel."""

    def post(self, call: Call) -> None:
        """From any thread: let the owner do it soon. Never blocks."""

    def wake(self) -> None:
        """From any thread and from a signal's function: let the owner's loop turn."""

    def ring(self, at_ns: int, call: Call) -> None:
        """Of the owner alone: do one thing at a time of the monotonic clock; what was asked before is forgotten."""

    def wait(self, seconds: float) -> None:
        """Of the owner alone: do what is posted, for at most so long, or until something was."""


class ThreadOwner:
    """The main thread, in Celery's loop or in our own. Its loop reads `fileno()` and then calls `run`."""

    def __init__(self) -> None:
        self._posted: deque[Call] = deque()
        self._event: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._told = False
        self._guard = allocate_lock()
        self._rings = allocate_lock()
        self._rings.acquire()
        self._ring: tuple[int, Call] | None = None
        self._ringing = False

    def fileno(self) -> int:
        """Give what is readable when something was posted."""
        return self._event

    def post(self, call: Call) -> None:
        """See Owner."""
        self._posted.append(call)
        if not self._told:
            self._told = True
            self.wake()

    def wake(self) -> None:
        """See Owner."""
        os.eventfd_write(self._event, 1)

    def run(self) -> None:
        """Do what was posted."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
        # Before the calls: what is posted from here on writes to the event again.
        self._told = False
        _do_all(self._posted)

    def ring(self, at_ns: int, call: Call) -> None:
        """See Owner. A thread of ours waits: the loop's own timers stand still while the broker is away."""
        with self._guard:
            self._ring = (at_ns, call)
            if not self._ringing:
                self._ringing = True
                start_new_thread(self._watch, ())
            elif self._rings.locked():
                self._rings.release()

    def _watch(self) -> None:
        mark_thread()
        while True:
            with self._guard:
                at_ns, call = self._ring or (0, None)
                left_s = (at_ns - time.monotonic_ns()) / 1e9 if call is not None else _LONG_S
                if call is not None and left_s <= 0:
                    self._ring = None
            if call is not None and left_s <= 0:
                self.post(call)
                continue
            self._rings.acquire(True, min(left_s, _LONG_S))

    def wait(self, seconds: float) -> None:
        """See Owner."""
        waiting = poll()
        waiting.register(self._event, POLLIN)
        waiting.poll(max(0, int(seconds * 1000)))
        self.run()


class GreenOwner:
    """One greenlet of its own, so that what it says to the broker is never cut off by an order's time limit."""

    def __init__(self) -> None:
        import gevent
        from gevent.event import Event

        self._gevent: Any = gevent
        self._thread = get_ident()
        self._posted: deque[Call] = deque()
        self._work = Event()
        self._turned = Event()
        self._watcher = gevent.get_hub().loop.async_()
        self._watcher.start(self._work.set)
        self._timer: Any = None
        gevent.spawn(self._run)

    def post(self, call: Call) -> None:
        """See Owner."""
        self._posted.append(call)
        if get_ident() == self._thread:
            self._work.set()
        else:
            self._watcher.send()

    def wake(self) -> None:
        """See Owner."""
        self._watcher.send()

    def ring(self, at_ns: int, call: Call) -> None:
        """See Owner."""
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
        left_s = max(0.0, (at_ns - time.monotonic_ns()) / 1e9)
        self._timer = self._gevent.get_hub().loop.timer(left_s)
        self._timer.start(self.post, call)

    def wait(self, seconds: float) -> None:
        """See Owner."""
        self._turned.wait(seconds)
        self._turned.clear()

    def _run(self) -> None:
        while True:
            self._work.wait()
            self._work.clear()
            _do_all(self._posted)
            self._turned.set()


def _do_all(posted: deque[Call]) -> None:
    """Do what was posted; what fails keeps nobody else."""
    while posted:
        call = posted.popleft()
        try:
            call()
        except Exception:
            _log.exception("a bug of Greenlane: %r failed", call)
