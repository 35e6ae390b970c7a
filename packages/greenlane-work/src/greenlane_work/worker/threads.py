"""Orders in threads: the owner of the channel is the main thread, and each order runs in a thread of a pool.

The soft limit is an exception that the interpreter raises in the thread at its next instruction; a thread in a system
call meets it when the call returns. The hard limit gives the order up: its place is free at once. Nothing can end the
thread, so it is left to end by itself, and counts as abandoned until it does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from select import POLLIN
from typing import Final

from celery.exceptions import SoftTimeLimitExceeded

from greenlane.hosts.pool import Pool as Threads
from greenlane.threads.fork_warning import mark_thread
from greenlane.threads.unpatched import allocate_lock, poll, start_new_thread
from greenlane_work.order import Run
from greenlane_work.worker.owner import Call, do_all, nothing
from greenlane_work.worker.runs import Serve

__all__ = ["ThreadOwner", "ThreadRunner"]

#: A wait for nothing in particular.
_LONG_S: Final = 3600.0
_raise_in: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc


class ThreadOwner:
    """The main thread, in Celery's loop or in our own. Its loop reads `fileno()` and then calls `run`."""

    def __init__(self) -> None:
        self._posted: deque[Call] = deque()
        self._behind: list[Call] = []
        self._event: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._told = False
        self.together: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
        self.after: Call = nothing
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

    def post_behind(self, call: Call) -> None:
        """See Owner."""
        self._behind.append(call)
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
        with self.together():
            do_all(self._posted, self.after)
        behind, self._behind = self._behind, []
        for call in behind:
            self.post(call)

    def ring(self, at_ns: int, call: Call) -> None:
        """See Owner. One of our threads waits: the loop's own timers stop while the broker is away."""
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


class ThreadRunner:
    """Threads, started on demand, at most one an order."""

    def __init__(self, slots: int, serve: Serve) -> None:
        self._serve = serve
        self._threads: Threads[Run] = Threads(slots, self._run)
        self._guard = allocate_lock()
        # Runs that were given up and go on.
        self._left: set[Run] = set()

    def run(self, run: Run) -> None:
        """See Runner."""
        run.guard = allocate_lock()
        self._threads.submit(run)

    def soften(self, run: Run) -> None:
        """See Runner."""
        with run.guard:
            run.late_unbegun = run.runner is None
            if run.runner is not None:
                _raise_in(ctypes.c_ulong(run.runner), ctypes.py_object(SoftTimeLimitExceeded))

    def abandon(self, run: Run) -> None:
        """See Runner."""
        with self._guard:
            self._left.add(run)
            self._threads.ceiling += 1

    def abandoned(self) -> int:
        """See Runner."""
        return len(self._left)

    def close(self) -> None:
        """End idle threads."""
        self._threads.shutdown()

    def _run(self, run: Run) -> None:
        with run.guard:
            run.runner = None if run.abandoned else get_ident()
        try:
            try:
                self._serve(run)
            finally:
                with run.guard:
                    run.runner = None
        except SoftTimeLimitExceeded:
            # The limit and the end came in the same moment: the order has ended.
            with run.guard:
                run.runner = None
        with self._guard:
            if run in self._left:
                self._left.remove(run)
                self._threads.ceiling -= 1
