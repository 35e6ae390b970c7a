"""Threads for requests: started on demand up to a ceiling, ended when they stay idle.

Why not `ThreadPoolExecutor`: it makes a future, a semaphore step and a callback for every request, and it wakes its
threads in turn, so that none of them ever stays idle. Here the thread that came back last is woken first: few threads
stay warm and the others end.

With `Turns` a pool under lasting overload keeps threads for what is light. While many threads wait for a permit,
one more of their kind ends no sooner for having a thread: it gets none of the last quarter, and light items are served
before it. Without such a queue at the permit, and below three quarters of the threads, items are served as they come.
The rule itself is greenlane-policy's `threads`, which `greenlane plan` simulates too.

The locks are `_thread`'s own, taken when this module is imported: probes never see the pool's waits.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import weakref
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, MutableSequence
from typing import Any, Final, Generic, Protocol, TypeVar

from greenlane._native import threads_nearly_full, threads_next_queue

__all__ = ["IDLE_S", "POOLS", "Pool", "Turns"]

# Seconds after which an idle thread ends. Arbitrary: longer than a pause between two bursts of one page.
IDLE_S: Final = 30.0

#: Those of this process, for `greenlane.health`.
POOLS: Final[weakref.WeakSet[Any]] = weakref.WeakSet()

T = TypeVar("T")
_T = TypeVar("_T", contravariant=True)


class Turns(Protocol[_T]):
    """Says which items may wait for others. Called while a pool is nearly full, under its lock: must not raise."""

    def is_heavy(self, item: _T) -> bool:
        """Whether `item` will wait for a permit."""

    def waiting(self) -> int:
        """How many phases wait for a permit."""


class _Seat(Generic[T]):
    """One thread's place in the pool."""

    __slots__ = ("item", "since_ns", "wakes")

    def __init__(self) -> None:
        # What it serves, until that is counted out; None when the thread wakes = end. Written under the pool's guard,
        # and before `wakes` is released.
        self.item: T | None = None
        # When it began what it serves now; 0 = idle or counted out. Written by its own thread.
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
        turns: None = all items are alike.

    Cost: a submission to an idle thread is two uncontended locks and one wake-up.
    """

    def __init__(
        self,
        ceiling: int,
        serve: Callable[[T], object],
        *,
        idle_s: float = IDLE_S,
        progress: MutableSequence[int] | memoryview[int] | None = None,
        turns: Turns[T] | None = None,
    ) -> None:
        self.ceiling = ceiling
        #: With this many items in progress, one more may have to wait for a thread.
        self.nearly_full = ceiling if turns is None else threads_nearly_full(ceiling)
        self.threads = 0
        self._serve = serve
        self._idle_s = idle_s
        self._progress: MutableSequence[int] | memoryview[int] = [0] if progress is None else progress
        self._progress[0] = 0
        self._guard = allocate_lock()
        self._idle: list[_Seat[T]] = []
        self._seats: set[_Seat[T]] = set()
        # `seat` of the thread that asks.
        self._here = threading.local()
        self._turns = turns
        # Items that wait for a thread, by their order.
        self._light: deque[tuple[int, T]] = deque()
        self._heavy: deque[tuple[int, T]] = deque()
        self._order = itertools.count()
        self._closing = False
        self._ended_ns = self._full_ns = time.monotonic_ns()
        POOLS.add(self)

    @property
    def in_progress(self) -> int:
        """Items queued or being served."""
        return self._progress[0]

    @property
    def busy(self) -> int:
        """Threads that are not idle; one that has counted its item out is busy until it returns."""
        return self.threads - len(self._idle)

    @property
    def queued(self) -> int:
        """Items that wait for a thread."""
        return len(self._light) + len(self._heavy)

    def submit(self, item: T) -> None:
        """Serve `item` on an idle thread, else on a new one, else when a thread comes free for it.

        Raises:
            RuntimeError: there is no thread and none can be started; the item is not taken.
        """
        with self._guard:
            self._progress[0] = count = self._progress[0] + 1
            if count == self.ceiling:
                self._full_ns = time.monotonic_ns()
            if self.busy >= self.nearly_full:
                self._queue(item)
                head = self._next_queued()
                if head is None:
                    return
                item = head
            seat = self._taken(item)
        if seat is not None:
            seat.wakes.release()
        else:
            self._start(item)

    def count_out(self) -> bool:
        """End the item that the calling thread serves, before `serve` returns: what comes next does not count it.

        Returns:
            whether the caller is a thread of this pool; for others nothing is done.
        """
        seat: _Seat[T] | None = getattr(self._here, "seat", None)
        if seat is None:
            return False
        with self._guard:
            self._end(seat)
        return True

    def withdraw(self, item: T) -> bool:
        """Take back an item that no thread has begun; False when one has."""
        with self._guard:
            for queue in (self._light, self._heavy):
                for entry in queue:
                    if entry[1] == item:
                        queue.remove(entry)
                        self._progress[0] -= 1
                        return True
        return False

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

    def _queue(self, item: T) -> None:
        heavy = self._turns is not None and self._turns.is_heavy(item)
        (self._heavy if heavy else self._light).append((next(self._order), item))

    def _next_queued(self) -> T | None:
        """Take the queued item that is to be served now; None: there is none, or no thread for it."""
        light, heavy = self._light, self._heavy
        if not (light or heavy):
            return None
        first = (light[0][0] if light else None), (heavy[0][0] if heavy else None)
        waiting = self._turns.waiting() if heavy and self._turns is not None else 0
        is_heavy = threads_next_queue(self.ceiling, self.busy, *first, waiting)
        return None if is_heavy is None else (heavy if is_heavy else light).popleft()[1]

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
                    self._queue(item)
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
        self._here.seat = seat
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
            self._end(seat)
            self._idle.append(seat)
            item = self._next_queued()
            if item is None and self._closing:
                self._idle.pop()
                self._leave(seat)
                return
            if item is not None:
                self._idle.pop()
                seat.item = item
        if item is not None:
            self._place_one_more()
            return
        if not seat.wakes.acquire(timeout=self._idle_s):
            with self._guard:
                if seat in self._idle:
                    self._idle.remove(seat)
                    self._leave(seat)
                    return
            seat.wakes.acquire()  # taken in the same moment: its item is there or about to be

    def _end(self, seat: _Seat[T]) -> None:
        if seat.item is None:
            return
        self._progress[0] -= 1
        self._ended_ns = time.monotonic_ns()
        seat.since_ns = 0
        seat.item = None

    def _place_one_more(self) -> None:
        """Let another thread serve a queued item that need not wait any longer: the queue at the permit has gone."""
        if not self._heavy:
            return
        with self._guard:
            item = self._next_queued()
            if item is None:
                return
            seat = self._taken(item)
        if seat is not None:
            seat.wakes.release()
        else:
            self._start(item)

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
