"""Calls in worker processes, over shared memory.

    submit ──> idle worker ──answer──> the call's end, and the worker's next call
       └─────> queue, bounded ───────────────┘

A worker has one call at a time, and none before it has answered the last: an answer can only be that call's (its id is
compared all the same), even if its caller has stopped waiting. What is sent to a worker is pickled when it is
submitted and copied when it is dispatched; leave arrays alone until the answer.

The sending happens on the caller's thread or where an answer rings (`homes`); births, deaths and times are the
keeper's.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import os
import time
import weakref
from collections import deque
from typing import Any, Final

from greenlane.errors import Overloaded, PlacementError
from greenlane.placement import Call, ExecutorStats, State
from greenlane.placement.arena import inside
from greenlane.placement.arena.answers import raised, unreadable
from greenlane.placement.arena.homes import Home, caller_loop, loop_home
from greenlane.placement.arena.keeper import Keeper
from greenlane.placement.arena.names import name_of, shipped
from greenlane.placement.arena.options import ArenaOptions
from greenlane.placement.arena.parcel import SMALL_BYTES, pack_call, unpack
from greenlane.placement.arena.protocol import CALL, RESULT, Letter
from greenlane.placement.arena.worker import ArenaCall, ArenaWorker, Crossed
from greenlane.threads.unpatched import allocate_lock

__all__ = ["ArenaExecutor", "ArenaStats"]

_call_ids: Final = itertools.count(1)
# Reading a member of an enum costs more than what is done with it.
_RUNNING, _FINISHED, _FAILED = State.RUNNING, State.FINISHED, State.FAILED
_all: Final[weakref.WeakSet[ArenaExecutor]] = weakref.WeakSet()


@dataclasses.dataclass(frozen=True)
class ArenaStats(ExecutorStats):
    """Counts since the executor was made."""

    # ArenaWorker processes started, and those that ended without being asked to.
    starts: int = 0
    deaths: int = 0
    # Answers whose caller had left.
    late: int = 0
    # Messages, either way, that found no room in an arena and took the slow way: raise arena_mb if they are many.
    overflows: int = 0
    # What was pickled, and what was copied as it lies; both ways together.
    in_band_bytes: int = 0
    out_of_band_bytes: int = 0
    # Of all arenas for arguments: given out, and not yet known to be free again.
    lent_bytes: int = 0


class ArenaExecutor:
    """An `Executor`. Workers start with the first call, or with `start()`; a forked child has workers of its own.

    Cost on the caller's thread: about 15 us a call, and the copying of its arrays.
    """

    def __init__(self, options: ArenaOptions | None = None) -> None:
        """Make it; nothing is started."""
        self.options = options or ArenaOptions()
        self._payload_max_bytes = self.options.payload_max_bytes
        if self.options.warm_up is not None:
            name_of(self.options.warm_up)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._lock = allocate_lock()
        self._queue: deque[ArenaCall] = deque()
        self._idle: list[ArenaWorker] = []
        # Ready ones by their channel's descriptor.
        self._workers: dict[int, ArenaWorker] = {}
        self._orders: dict[int, ArenaCall] = {}
        self._homes: dict[Any, Home] = {}
        self._keeper: Keeper | None = None
        self._closed = False
        self._done = self._failed = self._cancelled = self._shed = self._late = 0
        # Of workers that are gone.
        self._past = Crossed()

    # -- What callers use

    def start(self) -> None:
        """Start the workers now rather than with the first call. Does not wait for them."""
        self._check_open()
        with self._lock:
            self._kept()

    def submit(self, call: Call) -> None:
        """See `Executor`."""
        if self._closed or inside.WORKER:
            self._check_open()
        fn = call.fn
        name = call.name or getattr(fn, "__qualname__", "") or repr(fn)
        parcel = pack_call(shipped(fn), call.args, call.kwargs, name)
        parcel.check_size(self._payload_max_bytes, name)
        keeper = self._keeper
        if keeper is None:
            with self._lock:
                keeper = self._kept()
        order = ArenaCall(call, parcel, name, next(_call_ids), self._home_here(keeper))
        worker = None
        with self._lock:
            if self._closed:
                raise _closed_error()
            if self._idle:
                worker = self._idle.pop()
            elif len(self._queue) >= self.options.queue:
                self._shed += 1
                raise Overloaded(
                    "place a call in a worker process", name="queue", value=self.options.queue,
                    rule="fewer calls waiting", hint="try later, shed load earlier, or add workers",
                )  # fmt: skip
            else:
                self._queue.append(order)
            self._orders[order.call_id] = order
        call.ticket = order.call_id
        call.add_done_callback(self._call_ended)
        if worker is not None:
            self._hand(worker, order)
        else:
            self._adopt_stranded()
        if call.deadline_ns:
            keeper.expect(call.deadline_ns)

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "f8") -> Any:
        """Give a numpy array, its content undefined, that workers see where it lies: as an argument it is not copied.

        The same for a contiguous part of it. Fill it before the call, and leave it alone until the answer. It is an
        ordinary array when it is small (under 64 kB), when there is no room (`shared_mb`), and under `writable`.
        """
        import numpy

        self._check_open()
        keeper = self._keeper
        if keeper is None:
            with self._lock:
                keeper = self._kept()
        array = numpy.empty(shape, dtype)  # pages that are never touched cost nothing
        if array.nbytes < SMALL_BYTES or self.options.writable or array.dtype.hasobject:
            return array
        block = keeper.shared.block(array.nbytes)
        if block is None:
            for worker in self.ready_workers():
                worker.outbox.take_back()
            block = keeper.shared.block(array.nbytes)
        return array if block is None else numpy.ndarray(array.shape, array.dtype, block)

    def cancel(self, call: Call) -> bool:
        """See `Executor`."""
        return call.cancel()

    def stats(self) -> ArenaStats:
        """See `Executor`."""
        with self._lock:
            workers = list(self._workers.values())
            keeper = self._keeper
            crossed = sum((worker.crossed() for worker in workers), self._past)
            return ArenaStats(
                queued=len(self._queue),
                running=sum(worker.order is not None for worker in workers),
                workers=len(workers),
                done=self._done,
                failed=self._failed,
                cancelled=self._cancelled,
                shed=self._shed,
                starts=keeper.starts if keeper else 0,
                deaths=keeper.deaths if keeper else 0,
                late=self._late,
                overflows=crossed.overflows,
                in_band_bytes=crossed.in_band_bytes,
                out_of_band_bytes=crossed.out_of_band_bytes,
                lent_bytes=sum(worker.outbox.lent_bytes for worker in workers),
            )

    def worker_pids(self) -> list[int]:
        """Process ids of the workers that are ready."""
        with self._lock:
            return [worker.pid for worker in self._workers.values()]

    def close(self, seconds: float) -> None:
        """See `Executor`. Workers that still run then are killed, their calls fail."""
        with self._lock:
            self._closed = True
            waiting = list(self._queue)
            self._queue.clear()
            keeper = self._keeper
        for order in waiting:
            order.fail(_closed_error())
        if keeper is not None:
            keeper.close(seconds)
        # What came back from a worker that died meanwhile.
        for order in self.orders():
            order.fail(_closed_error())
        homes, self._homes = self._homes, {}
        for home in homes.values():
            home.end()

    def _check_open(self) -> None:
        if self._closed:
            raise _closed_error()
        if inside.WORKER:
            raise PlacementError(
                "start worker processes", name="process", value=os.getpid(), rule="one that is no worker itself",
                hint='keep what starts the program under `if __name__ == "__main__":`, and call the function directly',
            )  # fmt: skip

    def _kept(self) -> Keeper:
        if self._closed:
            raise _closed_error()
        if self._keeper is None:
            self._keeper = Keeper(self)
        return self._keeper

    # -- A call's way

    def _hand(self, worker: ArenaWorker, order: ArenaCall | None) -> None:
        """Give a worker, which is ours alone, the order or the next that can still begin; else it is idle."""
        while order is not None and not self._give(worker, order):
            order = self.next_order(worker)

    def _give(self, worker: ArenaWorker, order: ArenaCall) -> bool:
        """False = the order has ended, the worker is still ours."""
        call = order.call
        if not (call.state is _RUNNING if order.begun else call.begin()):
            return False
        order.begun = True
        parcel = order.parcel
        call.in_band += parcel.in_band_bytes
        if parcel.buffers:
            call.out_of_band += parcel.out_of_band_bytes
        with worker.reading:
            worker.order = order
            order.worker = worker
            try:
                sent = self._send(worker, order)
            except Exception as error:  # no memory file could be made
                worker.order = None
                refused: BaseException | None = error
            else:
                refused = None
        if refused is not None:
            order.fail(refused)
            return False
        if not sent:
            self._take_again(worker, order)
        elif call.state is not _RUNNING:
            worker.tell_cancelled(order)
        return True

    def _send(self, worker: ArenaWorker, order: ArenaCall) -> bool:
        """False = the worker has just died."""
        home, parcel = order.home, order.parcel
        if not home.runs() and self._keeper is not None:
            home = self._keeper
        if worker.home is not home:
            try:
                self.move(worker, home)
            except OSError:
                return False
        due_ns = order.call.deadline_ns
        names_main = parcel.names_main
        return worker.outbox.send(CALL, order.call_id, due_ns, parcel.pickle, parcel.buffers, names_main=names_main)

    def _take_again(self, worker: ArenaWorker, order: ArenaCall) -> None:
        """The worker is gone and has seen nothing of the order: another one runs it."""
        worker.kill()
        with self._lock:
            if worker.order is order:
                worker.order = None
                self._queue.appendleft(order)

    def read(self, worker: ArenaWorker) -> bool:
        """Read an answer of this worker, if there is one: end its call, and give it the next. False = there is none."""
        with worker.reading:
            try:
                letter = worker.inbox.receive()
            except OSError:
                letter = False
            if letter is None:
                return False
            if not letter:
                self._lose(worker)
                return False
            order = worker.order
            if order is None or letter[2] != order.call_id:
                with self._lock:
                    self._late += 1
                return True
            worker.order = None
            worker.calls += 1
        following = self.next_order(worker)
        if following is not None:
            self._hand(worker, following)
        self._settle(order, letter)
        return True

    def _lose(self, worker: ArenaWorker) -> None:
        """Its end is closed, or it cannot be read: the worker is of no use, whatever else it does."""
        if worker.home is not None:
            worker.home.poll.remove(worker.channel.fileno())
        self.withdraw(worker)
        worker.kill()

    def _settle(self, order: ArenaCall, letter: Letter) -> None:
        if order.call.state is not _RUNNING:
            with self._lock:
                self._late += 1
            return
        call = order.call
        kind, _, _, call.ran_ns, text, buffers = letter
        call.in_band += len(text)
        if buffers:
            call.out_of_band += sum(map(len, buffers))
        from_ns = time.thread_time_ns() if call.cost is not None else 0
        try:
            outcome = unpack(text, buffers)
            if from_ns:
                call.kept_ns = time.thread_time_ns() - from_ns
        except Exception as error:
            order.fail(unreadable("read a result from a worker process", order.name, error))
            return
        # What was made of them keeps what it needs.
        buffers.clear()
        if kind == RESULT:
            order.finish(outcome)
        else:
            order.fail(raised(outcome))

    def _call_ended(self, call: Call) -> None:
        """However it ended and on whatever thread: it no longer waits here, and its worker knows."""
        with self._lock:
            order = self._orders.pop(call.ticket, None)
            if order is None:
                return
            state = call.state
            if state is _FINISHED:
                self._done += 1
            elif state is _FAILED:
                self._failed += 1
            else:
                self._cancelled += 1
            if not order.begun:
                with contextlib.suppress(ValueError):
                    self._queue.remove(order)
            keeper = self._keeper
        worker = order.worker
        if worker is not None and worker.order is order:
            worker.tell_cancelled(order)
            if keeper is not None and self.options.kill_after_s:
                keeper.left(order)

    # -- What the keeper uses

    def next_order(self, worker: ArenaWorker) -> ArenaCall | None:
        """Give a free worker's next order; None = there is none, it is idle now or has been withdrawn."""
        with self._lock:
            if worker.retiring:
                worker.free = True
                keeper = self._keeper
            elif self._queue:
                return self._queue.popleft()
            else:
                self._idle.append(worker)
                keeper = self._keeper if self._is_worn(worker) else None
        if keeper is not None:
            keeper.wake()
        return None

    def _is_worn(self, worker: ArenaWorker) -> bool:
        return bool(self.options.max_calls) and worker.calls >= self.options.max_calls

    def welcome(self, worker: ArenaWorker) -> None:
        """A worker is ready."""
        with self._lock:
            self._workers[worker.channel.fileno()] = worker
        self._hand(worker, self.next_order(worker))

    def withdraw(self, worker: ArenaWorker) -> None:
        """Let a worker get no more orders; `free` is set at once if it has none, else when it has answered."""
        with self._lock:
            worker.retiring = True
            if worker in self._idle:
                self._idle.remove(worker)
                worker.free = True

    def forget(self, worker: ArenaWorker) -> ArenaCall | None:
        """A worker is gone: give what it was running."""
        self.withdraw(worker)
        with self._lock:
            self._workers.pop(worker.channel.fileno(), None)
            self._past += worker.crossed()
            order, worker.order = worker.order, None
            return order

    def again(self, order: ArenaCall) -> None:
        """Run an order that its worker has not begun."""
        with self._lock:
            self._queue.appendleft(order)
        self.feed()

    def feed(self) -> None:
        """Give waiting orders to idle workers: after an order came back."""
        while True:
            with self._lock:
                if not self._queue or not self._idle:
                    return
                worker, order = self._idle.pop(), self._queue.popleft()
            self._hand(worker, order)

    def orders(self) -> list[ArenaCall]:
        """Those whose calls have not ended."""
        with self._lock:
            return list(self._orders.values())

    def ready_workers(self) -> list[ArenaWorker]:
        """Workers that are ready or run."""
        with self._lock:
            return list(self._workers.values())

    def fail_closed(self, worker: ArenaWorker) -> None:
        """The time to close has come, and this worker still runs."""
        order = worker.order
        if order is not None:
            order.fail(_closed_error())

    def fail_waiting(self, error: BaseException) -> None:
        """Nobody will run what waits."""
        with self._lock:
            orders = list(self._queue)
            self._queue.clear()
        for order in orders:
            order.fail(error)

    # -- Homes

    def move(self, worker: ArenaWorker, home: Home) -> None:
        """Let the worker's answers ring elsewhere. On any thread."""
        fd = worker.channel.fileno()
        if worker.home is not None:
            worker.home.poll.remove(fd)
        home.poll.add(fd)
        worker.home = home

    def _home_here(self, keeper: Keeper) -> Home:
        loop = caller_loop()
        if loop is None:
            return keeper
        home = self._homes.get(loop)
        if home is None:
            self._drop_stopped_homes()
            home = self._homes[loop] = loop_home(loop, self._ring)
        return home

    def _drop_stopped_homes(self) -> None:
        for loop, home in list(self._homes.items()):
            if not home.runs():
                self._adopt_stranded()
                if self._homes.pop(loop, None) is home:
                    home.end()

    def _adopt_stranded(self) -> None:
        """Workers whose loop has stopped answer to the keeper; what they have said meanwhile is read."""
        for worker in self.ready_workers():
            if worker.home is not None and not worker.home.runs() and self._keeper is not None:
                with worker.reading, contextlib.suppress(OSError):
                    self.move(worker, self._keeper)

    def _ring(self, home: Home) -> None:
        for fd in home.poll.ready():
            self.ring_one(home, fd)

    def ring_one(self, home: Home, fd: int) -> None:
        """Read the answer on this channel."""
        worker = self._workers.get(fd)
        if worker is None:
            home.poll.remove(fd)
        else:
            self.read(worker)

    # -- Forks and the end

    def forked(self) -> None:
        """In the child of a fork: the workers are the parent's; this one's start with its first call."""
        workers, homes, keeper, closed = self._workers, self._homes, self._keeper, self._closed
        self._begin()
        self._closed = closed
        for worker in workers.values():
            worker.close()
        for home in homes.values():
            home.poll.close()
        if keeper is not None:
            keeper.forked()


def _closed_error() -> PlacementError:
    return PlacementError(
        "place a call in a worker process", name="executor", value="closed", rule="an open one",
        hint="call it before the program ends",
    )  # fmt: skip


def _after_fork() -> None:
    for executor in list(_all):
        executor.forked()


def _at_exit() -> None:
    for executor in list(_all):
        executor.close(0)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
