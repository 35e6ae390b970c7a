"""Threads for requests: started on demand up to a ceiling, ended when they stay idle.

Why not `ThreadPoolExecutor`: it makes a future, a semaphore step and a callback for every request, and it wakes its
threads in turn, so that none of them ever stays idle. Here the thread that came back last is woken first: few threads
stay warm and the others end.

The locks are `_thread`'s own, taken when this module is imported: probes never see the pool's waits.
"""

from __future__ import annotations

import contextlib
import threading
import time
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, MutableSequence
from typing import Final, Generic, TypeVar

__all__ = ["IDLE_S", "Pool"]

# Seconds after which an idle thread ends. Arbitrary: longer than a pause between two bursts of one page.
IDLE_S: Final = 30.0

T = TypeVar("T")


class _Seat(Generic[T]):
    """One thread's place in the pool."""

    __slots__ = ("item", "since_ns", "wakes")

    def __init__(self) -> None:
        # What to serve next; None = end. Written under the pool's guard before `wakes` is released.
        self.item: T | None = None
        # When it began what it serves now; 0 = idle. Written by its own thread.
        self.since_ns = 0
        self.wakes = allocate_lock()
        self.wakes.acquire()


class Pool(Generic[T]):
    """Serves items in threads, in order of arrival, at most `ceiling` at a time.

    Args:
        ceiling: most threads; at least 1.
        serve: called with each item on a thread of the pool; must not raise.
        idle_s: seconds after which an idle thread ends.
        progress: one number, how many items are queued or being served. It may lie in memory that other processes
            read; only the pool writes it.

    Cost: a submission to an idle thread is two uncontended locks and one wake-up.
    """

    def __init__(
        self,
        ceiling: int,
        serve: Callable[[T], object],
        *,
        idle_s: float = IDLE_S,
        progress: MutableSequence[int] | memoryview[int] | None = None,
    ) -> None:
        self.ceiling = ceiling
        self.threads = 0
        self._serve = serve
        self._idle_s = idle_s
        self._progress: MutableSequence[int] | memoryview[int] = [0] if progress is None else progress
        self._progress[0] = 0
        self._guard = allocate_lock()
        self._idle: list[_Seat[T]] = []
        self._seats: set[_Seat[T]] = set()
        self._backlog: deque[T] = deque()
        self._closing = False
        self._ended_ns = self._full_ns = time.monotonic_ns()

    @property
    def in_progress(self) -> int:
        """Items queued or being served."""
        return self._progress[0]

    @property
    def queued(self) -> int:
        """Items that wait for a thread."""
        return len(self._backlog)

    def submit(self, item: T) -> None:
        """Serve `item` on an idle thread, else on a new one, else when a thread comes free.

        Raises:
            RuntimeError: there is no thread and none can be started; the item is not taken.
        """
        with self._guard:
            self._progress[0] = count = self._progress[0] + 1
            if count == self.ceiling:
                self._full_ns = time.monotonic_ns()
            if not self._idle and self.threads >= self.ceiling:
                self._backlog.append(item)
                return
            seat = self._taken(item)
        if seat is not None:
            seat.wakes.release()
        else:
            self._start(item)

    def withdraw(self, item: T) -> bool:
        """Take back an item that no thread has begun; False when one has."""
        with self._guard:
            try:
                self._backlog.remove(item)
            except ValueError:
                return False
            self._progress[0] -= 1
            return True

    def stuck(self, now_ns: int, after_ns: int, full: int) -> int:
        """How many items run longer than `after_ns`, if `full` or more are in progress and none ended for that long."""
        if self.in_progress < full or now_ns - max(self._ended_ns, self._full_ns) <= after_ns:
            return 0
        with self._guard:
            return sum(1 for seat in self._seats if seat.since_ns and now_ns - seat.since_ns > after_ns)

    def shutdown(self, wait: bool = False) -> None:
        """End idle threads now and each other one after what it serves; `wait` is there for gunicorn, never honoured.

        The threads are not daemons: the interpreter waits for them at its end, as it does for an executor's.
        """
        with self._guard:
            self._closing = True
            idle, self._idle = self._idle, []
            self.threads -= len(idle)
            self._seats.difference_update(idle)
        for seat in idle:
            seat.wakes.release()

    def _taken(self, item: T) -> _Seat[T] | None:
        """The idle seat that now holds `item`; None: a new thread is counted and must be started for it."""
        if self._idle:
            seat = self._idle.pop()
            seat.item = item
            return seat
        self.threads += 1
        return None

    def _start(self, item: T) -> None:
        try:
            threading.Thread(target=self._run, args=(item,), name=f"greenlane-{self.threads}").start()
        except RuntimeError:  # no memory or no process slot for another thread
            with self._guard:
                self.threads -= 1
                seat = self._idle.pop() if self._idle else None
                if seat is not None:
                    seat.item = item
                elif self.threads:
                    self._backlog.append(item)
                    return
                else:
                    self._progress[0] -= 1
            if seat is None:
                raise
            seat.wakes.release()

    def _run(self, first: T) -> None:
        seat: _Seat[T] = _Seat()
        seat.item = first
        del first
        with self._guard:
            self._seats.add(seat)
        # An exception from outside (`PyThreadState_SetAsyncExc`) may come at any line: the seat leaves with its thread.
        try:
            while (item := seat.item) is not None:
                seat.since_ns = time.monotonic_ns()
                try:
                    self._serve(item)
                except BaseException as error:  # our bug: logged, and the thread lives on
                    threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))
                del item
                self._next(seat)
        finally:
            self._give_up(seat)

    def _next(self, seat: _Seat[T]) -> None:
        """Put the next item into `seat`, waiting for it; None when the thread is to end."""
        with self._guard:
            self._progress[0] -= 1
            self._ended_ns = time.monotonic_ns()
            seat.since_ns = 0
            if self._backlog:
                seat.item = self._backlog.popleft()
                return
            seat.item = None
            if self._closing:
                self._leave(seat)
                return
            self._idle.append(seat)
        if not seat.wakes.acquire(timeout=self._idle_s):
            with self._guard:
                if seat in self._idle:
                    self._idle.remove(seat)
                    self._leave(seat)
                    return
            seat.wakes.acquire()  # taken in the same moment: its item is there or about to be

    def _leave(self, seat: _Seat[T]) -> None:
        self.threads -= 1
        self._seats.discard(seat)

    def _give_up(self, seat: _Seat[T]) -> None:
        """The thread ends: its seat is no longer needed, and its work goes to another thread."""
        with self._guard:
            if seat not in self._seats:
                return  # it left in order
            if seat in self._idle:
                self._idle.remove(seat)
            item, begun = seat.item, seat.since_ns != 0
            self._leave(seat)
            if item is None:
                return
            self._progress[0] -= 1
            if begun:
                return
        with contextlib.suppress(RuntimeError):
            self.submit(item)
