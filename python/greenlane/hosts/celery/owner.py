"""Whoever owns the channel to the broker: the one thread that receives and acknowledges.

What other threads have to tell the broker they post; the owner is woken at once, it does not look around now and then.
With green threads all greenlets of the process share the owner's thread: what they post is done where they stand.
"""

from __future__ import annotations

import contextlib
import os
import time
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from select import POLLIN
from typing import Any, Final, Protocol

from greenlane.real import poll

__all__ = ["GreenOwner", "Owner", "ThreadOwner"]

Call = Callable[[], object]


class Owner(Protocol):
    """Does what is posted on the thread of the channel."""

    def post(self, call: Call) -> None:
        """From any thread: let the owner do it soon. Never blocks."""

    def wake(self) -> None:
        """From any thread and from a signal's function: let the owner's loop turn."""

    def wait(self, seconds: float) -> None:
        """Of the owner alone: do what is posted, for at most so long, or until something was."""


class ThreadOwner:
    """The main thread, in Celery's loop or in our own. Its loop reads `fileno()` and then calls `run`."""

    def __init__(self) -> None:
        self._posted: deque[Call] = deque()
        self._event: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._told = False

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
        while self._posted:
            self._posted.popleft()()

    def wait(self, seconds: float) -> None:
        """See Owner."""
        waiting = poll()
        waiting.register(self._event, POLLIN)
        waiting.poll(max(0, int(seconds * 1000)))
        self.run()


class GreenOwner:
    """The thread of gevent's loop, in which all greenlets run one at a time."""

    def __init__(self) -> None:
        import gevent
        from gevent.event import Event

        self._gevent: Any = gevent
        self._thread = get_ident()
        self._posted: deque[Call] = deque()
        self._turned = Event()
        self._watcher = gevent.get_hub().loop.async_()
        self._watcher.start(self._run)

    def post(self, call: Call) -> None:
        """See Owner."""
        if get_ident() == self._thread:
            call()
            self._turned.set()
        else:
            self._posted.append(call)
            self._watcher.send()

    def wake(self) -> None:
        """See Owner."""
        self._watcher.send()

    def wait(self, seconds: float) -> None:
        """See Owner."""
        self._turned.wait(seconds)
        self._turned.clear()

    def _run(self) -> None:
        # In the hub, which must not block: a greenlet does it.
        self._gevent.spawn(self._do_posted)

    def _do_posted(self) -> None:
        while self._posted:
            self._posted.popleft()()
        self._turned.set()


def pause(owner: Owner, until: float) -> None:
    """Let the owner work until a moment of the monotonic clock, in seconds."""
    left = until - time.monotonic()
    if left > 0:
        owner.wait(min(left, 0.2))
