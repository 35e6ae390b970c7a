"""Calls in worker processes, with their buffers in shared memory.

    submit ──> idle worker ──answer──> the call's end, and the worker's next call
       └─────> queue, bounded ───────────────┘

A worker has one call at a time, and none before it has answered the last. What is sent to a worker is pickled when it
is submitted, on the caller's thread, and copied when it is dispatched; leave arrays alone until the answer. Answers are
read, and calls ended, on the thread of the worker's keeper.
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
from typing import Final

from greenlane.errors import Overloaded, PlacementError, WorkerDied
from greenlane.placement import Call, ExecutorStats, State
from greenlane.placement.processes import inside
from greenlane.placement.processes.answers import raised, unreadable
from greenlane.placement.processes.messages import RESULT, Message
from greenlane.placement.processes.names import name_of, shipped
from greenlane.placement.processes.options import ProcessOptions
from greenlane.placement.processes.parcel import MOST_BYTES, pack_call, unpack
from greenlane.placement.processes.worker import Keeper, Order, ProcessWorker, Worker
from greenlane.threads.unpatched import RLock

__all__ = ["ProcessExecutor", "ProcessStats"]

# A call whose worker was gone this often before it had begun fails: something is wrong with them all.
_MOST_RETURNS: Final = 3
_call_ids: Final = itertools.count(1)
_all: Final[weakref.WeakSet[ProcessExecutor]] = weakref.WeakSet()


@dataclasses.dataclass(frozen=True)
class ProcessStats(ExecutorStats):
    """Counts since the executor was made."""

    # Worker processes started, and those that ended without being asked to.
    starts: int = 0
    deaths: int = 0
    # Answers whose caller had left.
    late: int = 0


class ProcessExecutor:
    """An `Executor`. Workers start with the first call; a forked child has workers of its own."""

    def __init__(self, options: ProcessOptions | None = None) -> None:
        """Make it; nothing is started."""
        self.options = options or ProcessOptions()
        if self.options.warm_up is not None:
            name_of(self.options.warm_up)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._lock = RLock()  # a finalizer may place a call in the middle of one
        self._queue: deque[Order] = deque()
        self._idle: list[Worker] = []
        self._orders: dict[int, Order] = {}
        self._keepers: list[Keeper] = []
        self._by_state = dict.fromkeys(State, 0)
        self._shed = self._late = 0
        self.closed = False

    # -- What callers use

    def submit(self, call: Call) -> None:
        """See `Executor`."""
        if inside.WORKER:
            raise PlacementError(
                "start worker processes", name="process", value=os.getpid(), rule="one that is no worker itself",
                hint='keep what starts the program under `if __name__ == "__main__":`, and call the function directly',
            )  # fmt: skip
        name = call.name or getattr(call.fn, "__qualname__", "") or repr(call.fn)
        parcel = pack_call(shipped(call.fn), call.args, call.kwargs, name)
        parcel.check_size(MOST_BYTES, name)
        order = Order(call, parcel, name, next(_call_ids))
        worker: Worker | None = None
        try:
            with self._lock:
                if self.closed:
                    raise _closed_error()
                if not self._keepers:
                    self._keepers = [Keeper(self) for _ in range(self.options.worker_count)]
                if not self._idle and len(self._queue) >= self.options.queue:
                    self._shed += 1
                    raise Overloaded(
                        "place a call in a worker process", name="queue", value=self.options.queue,
                        rule="fewer calls waiting", hint="try later, shed load earlier, or add workers",
                    )  # fmt: skip
                call.ticket = order.call_id
                self._orders[order.call_id] = order
                if self._idle:
                    worker = self._idle[-1]
                    del self._idle[-1]
                else:
                    self._queue.append(order)
            call.add_done_callback(self._call_ended)
            if worker is not None:
                self._hand(worker, order)
        except BaseException:  # a signal's handler raises: nobody waits for the call
            if worker is not None:
                worker.kill()
            if call.ticket:
                call.cancel()
                self._call_ended(call)
            raise

    def cancel(self, call: Call) -> bool:
        """See `Executor`."""
        return call.cancel()

    def stats(self) -> ProcessStats:
        """See `Executor`."""
        with self._lock:
            workers = [keeper.worker for keeper in self._keepers if keeper.worker is not None]
            return ProcessStats(
                queued=len(self._queue),
                running=sum(worker.order is not None for worker in workers),
                workers=sum(worker.ready_s > 0 for worker in workers),
                done=self._by_state[State.FINISHED],
                failed=self._by_state[State.FAILED],
                cancelled=self._by_state[State.CANCELLED],
                shed=self._shed,
                starts=sum(keeper.starts for keeper in self._keepers),
                deaths=sum(keeper.deaths for keeper in self._keepers),
                late=self._late,
            )

    def close(self, seconds: float) -> None:
        """See `Executor`. Workers that still run then are killed, their calls fail."""
        until_s = time.monotonic() + seconds
        with self._lock:
            self.closed = True
            waiting, keepers = list(self._queue), self._keepers
            self._queue.clear()
            self._idle.clear()
        for order in waiting:
            order.fail(_closed_error())
        for keeper in keepers:
            keeper.hang_up()
        for keeper in keepers:
            if not keeper.wait(until_s - time.monotonic()) and keeper.worker is not None:
                worker = keeper.worker
                if worker.order is not None:
                    worker.order.fail(_closed_error())
                worker.kill()
        for keeper in keepers:
            keeper.wait(2)  # More means that a process cannot be killed.
        # What came back from a worker that died meanwhile.
        with self._lock:
            left = list(self._orders.values())
        for order in left:
            order.fail(_closed_error())

    # -- A call's way

    def _hand(self, worker: Worker, order: Order | None) -> None:
        """Give a worker, which is ours alone, the order or the next that can still begin; else it is idle."""
        try:
            while order is not None and not self._give(worker, order):
                order = self._next(worker)
        except BaseException:  # of a signal's handler, perhaps, on a caller's thread
            worker.kill()
            if order is not None and order.worker is not worker:
                self.put_back(order, _gone(worker, order))
            raise

    def _give(self, worker: Worker, order: Order) -> bool:
        """False = the order has ended, the worker is still ours."""
        call = order.call
        if not (call.state is State.RUNNING if order.begun else call.begin()):
            return False
        call.in_band, call.out_of_band = len(order.parcel.pickle), order.parcel.out_of_band_bytes
        order.begun, order.worker = True, worker
        worker.order = order
        with self._lock:  # its caller may have left since it began
            if call.state is not State.RUNNING and worker.order is order:
                order.left_s = order.left_s or time.monotonic()
                worker.page.cancelled = order.call_id
        try:
            worker.send(order)
        except OSError as error:
            if self.take(worker) is None:
                return True  # It has died, and its keeper was faster.
            if isinstance(error, BrokenPipeError):
                worker.kill()
                self.put_back(order, _gone(worker, order))
                return True
            order.fail(error)  # no memory file could be made
            return False
        return True

    def _next(self, worker: Worker) -> Order | None:
        """Give a free worker's next order; None = there is none, it is idle now."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            if self.closed:
                worker.end.hang_up()
            else:
                self._idle.append(worker)
        return None

    def _call_ended(self, call: Call) -> None:
        """However it ended and on whatever thread: it no longer waits here, and its worker knows."""
        with self._lock:
            order = self._orders.pop(call.ticket, None)
            if order is None:
                return
            self._by_state[call.state] += 1
            if not order.begun:
                with contextlib.suppress(ValueError):
                    self._queue.remove(order)
            worker = order.worker
            if worker is not None and worker.order is order:
                order.left_s = time.monotonic()
                worker.page.cancelled = order.call_id

    # -- What keepers use

    def start_worker(self) -> Worker:
        """Start one. Raises OSError: it could not be made."""
        return ProcessWorker(self.options)

    def is_wanted(self) -> bool:
        """Whether calls wait."""
        return bool(self._queue)

    def hand_next(self, worker: Worker) -> None:
        """Give a free worker its next call; it is idle if there is none."""
        self._hand(worker, self._next(worker))

    def take(self, worker: Worker) -> Order | None:
        """Give what a worker was running. It is neither idle any more."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
            order, worker.order = worker.order, None
            return order

    def settle(self, order: Order, message: Message) -> None:
        """End a call with its answer."""
        call = order.call
        if call.state is not State.RUNNING:
            with self._lock:
                self._late += 1
            return
        call.ran_ns = message.ns
        call.in_band += len(message.text)
        call.out_of_band += sum(map(len, message.buffers))
        try:
            outcome = unpack(message.text, message.buffers)
        except BaseException as error:  # whatever it raises: this thread must live
            order.fail(unreadable("read a result from a worker process", order.name, error))
            return
        message.buffers.clear()
        if message.kind == RESULT:
            order.finish(outcome)
        else:
            order.fail(raised(outcome))

    def put_back(self, order: Order, died: WorkerDied) -> None:
        """Run an order that its worker had not begun: first of all; after some such, fail it."""
        order.returns += 1
        if order.returns >= _MOST_RETURNS:
            order.fail(died)
            return
        with self._lock:
            worker = self._idle.pop() if self._idle else None
            if worker is None:
                self._queue.appendleft(order)
        if worker is not None:
            self._hand(worker, order)

    def fail_waiting(self, error: BaseException) -> None:
        """Fail what waits, if no keeper can start a worker."""
        with self._lock:
            if not all(keeper.failed for keeper in self._keepers):
                return
            orders = list(self._queue)
            self._queue.clear()
        for order in orders:
            order.fail(error)

    # -- Forks and the end

    def workers(self) -> list[Worker]:
        """Those that there are now."""
        return [keeper.worker for keeper in self._keepers if keeper.worker is not None]

    def forked(self) -> None:
        """In the child of a fork: the workers are the parent's; this one's start with its first call."""
        workers, closed = self.workers(), self.closed
        self._begin()
        self.closed = closed
        for worker in workers:
            worker.forget()


def _gone(worker: Worker, order: Order) -> WorkerDied:
    attempted, ended = f"run {order.name} {worker.where}", "ended before it had begun"
    hint = "look at what workers say on stderr"
    return WorkerDied(attempted, pid=worker.pid, code=None, ended=ended, hint=hint)


def _closed_error() -> PlacementError:
    return PlacementError(
        "place a call in a worker process", name="executor", value="closed", rule="an open one",
        hint="call it before the program ends",
    )  # fmt: skip


def _before_fork() -> None:
    for executor in list(_all):
        for worker in executor.workers():
            worker.end.incoming.share()


def _after_fork() -> None:
    for executor in list(_all):
        executor.forked()


def _at_exit() -> None:
    for executor in list(_all):
        executor.close(0)


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
atexit.register(_at_exit)
