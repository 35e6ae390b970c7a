"""Where an order runs: a thread of its own or a green thread, and how a run is cut off at its time limit.

**Threads.** The soft limit is an exception that the interpreter raises in the thread at its next instruction; one that
waits in a system call meets it when the call returns. The hard limit gives the order up: its place is free at once, the
thread is left to end by itself (nothing can end it), and is counted as abandoned until it does.

**Green threads.** Both limits are exceptions in the greenlet, at whatever it waits for. One that never yields stops the
whole process, and no limit can be kept in it: `Watch` says who it is.
"""

from __future__ import annotations

import ctypes
import logging
from _thread import allocate_lock, get_ident
from collections.abc import Callable
from typing import Any, Final, Protocol

from celery.exceptions import SoftTimeLimitExceeded

from greenlane.hosts.pool import Pool as Threads
from greenlane_work.order import Order

__all__ = ["GreenRunner", "HardTimeLimitExceeded", "Runner", "ThreadRunner"]

_log = logging.getLogger("greenlane.work")

Serve = Callable[[Order, int], None]
_raise_in: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc


class HardTimeLimitExceeded(BaseException):
    """Ends the greenlet of an order that was given up at its hard limit. Not an Exception: tasks catch those."""


class Runner(Protocol):
    """Runs orders, each apart from the others."""

    def run(self, order: Order) -> None:
        """Start it; returns at once."""

    def soften(self, order: Order) -> None:
        """Raise SoftTimeLimitExceeded in it."""

    def abandon(self, order: Order, generation: int) -> None:
        """Free the place of this run; the order was given up."""

    def abandoned(self) -> int:
        """Give how many that were given up have not ended yet."""

    def close(self) -> None:
        """Run no more."""


class ThreadRunner:
    """Threads, started on demand, at most one an order."""

    def __init__(self, slots: int, serve: Serve) -> None:
        self._serve = serve
        self._threads: Threads[tuple[Order, int]] = Threads(slots, self._run)
        self._guard = allocate_lock()
        # Runs that were given up and go on.
        self._left: set[tuple[int, int]] = set()

    def run(self, order: Order) -> None:
        """See Runner."""
        order.guard = allocate_lock()
        self._threads.submit((order, order.generation))

    def soften(self, order: Order) -> None:
        """See Runner."""
        with order.guard:
            if order.runner is not None:
                _raise_in(ctypes.c_ulong(order.runner), ctypes.py_object(SoftTimeLimitExceeded))

    def abandon(self, order: Order, generation: int) -> None:
        """See Runner."""
        with self._guard:
            self._left.add((order.number, generation))
            self._threads.ceiling += 1

    def abandoned(self) -> int:
        """See Runner."""
        return len(self._left)

    def close(self) -> None:
        """End idle threads."""
        self._threads.shutdown()

    def _run(self, item: tuple[Order, int]) -> None:
        order, generation = item
        guard = order.guard
        order.runner = get_ident()
        try:
            try:
                self._serve(order, generation)
            finally:
                with guard:
                    order.runner = None if order.generation == generation else order.runner
        except SoftTimeLimitExceeded:
            # The limit and the end came in the same moment: the order has ended.
            with guard:
                order.runner = None if order.generation == generation else order.runner
        with self._guard:
            if (order.number, generation) in self._left:
                self._left.remove((order.number, generation))
                self._threads.ceiling -= 1


class GreenRunner:
    """A greenlet an order."""

    def __init__(self, serve: Serve) -> None:
        import gevent

        self._gevent: Any = gevent
        self._serve = serve
        self._left: set[tuple[int, int]] = set()

    def run(self, order: Order) -> None:
        """See Runner."""
        order.runner = self._gevent.spawn(self._run, order, order.generation)

    def soften(self, order: Order) -> None:
        """See Runner."""
        if order.runner is not None:
            order.runner.kill(SoftTimeLimitExceeded(), block=False)

    def abandon(self, order: Order, generation: int) -> None:
        """See Runner."""
        self._left.add((order.number, generation))
        if order.runner is not None:
            order.runner.kill(HardTimeLimitExceeded(), block=False)

    def abandoned(self) -> int:
        """See Runner."""
        return len(self._left)

    def close(self) -> None:
        """Nothing is idle."""

    def _run(self, order: Order, generation: int) -> None:
        try:
            self._serve(order, generation)
        except (SoftTimeLimitExceeded, HardTimeLimitExceeded):
            pass
        self._left.discard((order.number, generation))
