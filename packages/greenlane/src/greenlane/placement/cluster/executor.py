"""Calls on a Ray cluster.

    submit ──> a worker that has nothing to do ──answer──> the call's end, and the worker's next call
       └─────> queue, bounded ──────────────────┘

A worker is a Ray actor: it has one call at a time, and none before it has answered the last. Workers are started on
demand and given back when they have had nothing to do for a while. Ray itself lives in another process (`bridge`); here
are the queue, who runs what, and the ends of calls. Nothing is ever repeated: what a call that did not answer has done,
nobody knows.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import logging
import time
import weakref
from collections import deque
from typing import Final

from greenlane.errors import Overloaded, PlacementError, WorkerDied
from greenlane.placement import Call, ExecutorStats, State
from greenlane.placement.cluster.link import Link
from greenlane.placement.cluster.options import ClusterOptions
from greenlane.placement.cluster.wire import Frame, FrameKind
from greenlane.placement.processes import inside
from greenlane.placement.processes.answers import raised, unreadable
from greenlane.placement.processes.names import shipped
from greenlane.placement.processes.parcel import Parcel, pack_call, unpack
from greenlane.threads.unpatched import RLock, allocate_lock, in_forked_child, start_new_thread

__all__ = ["RayExecutor"]

_ATTEMPTED: Final = "place a call on the cluster"
_HINT_BRIDGE: Final = "look at what Ray has said on stderr, and whether the cluster runs: ray status"
_LOG: Final = logging.getLogger("greenlane")
#: How often idle and starting workers are looked at, at least; at most a quarter of `idle_s`.
_LOOK_S: Final = 1.0
_call_ids: Final = itertools.count(1)
_worker_ids: Final = itertools.count(1)
_all: Final[weakref.WeakSet[RayExecutor]] = weakref.WeakSet()


@dataclasses.dataclass(slots=True, eq=False)
class _RayWorker:
    """An actor: started, there (`pid` is known), or gone."""

    number: int
    since_s: float
    pid: int = 0
    order: _RayCall | None = None


@dataclasses.dataclass(slots=True, eq=False)
class _RayCall:
    """A call on its way."""

    call: Call
    parcel: Parcel
    name: str
    call_id: int
    worker: _RayWorker | None = None

    def fail(self, error: BaseException) -> None:
        """End the call. A callback that raises is its caller's trouble, not that of the calls after it."""
        try:
            self.call.fail(error)
        except Exception:
            _LOG.exception("tell a caller that its placed call has ended")


class RayExecutor:
    """An `Executor`. The bridge starts with the first call; a forked child has one of its own.

    Cost on the caller's thread: the pickling of what is no buffer; arrays are sent from where they lie, later: leave
    them alone until the answer. A call takes about a millisecond and its network.
    """

    def __init__(self, options: ClusterOptions) -> None:
        """Make it; nothing is started."""
        self.options = options
        self._begin()
        _all.add(self)
        in_forked_child(self._forked)

    def _begin(self) -> None:
        self._lock = RLock()
        self._waiting: deque[_RayCall] = deque()
        self._orders: dict[int, _RayCall] = {}
        self._workers: dict[int, _RayWorker] = {}
        self._idle: list[_RayWorker] = []
        self._link: Link | None = None
        self._closed = False
        self._by_state = dict.fromkeys(State, 0)
        self._shed = 0
        # Released when the last running call of a closed executor has ended.
        self._drained = allocate_lock()
        self._drained.acquire()

    # -- What callers use

    def submit(self, call: Call) -> None:
        """See `Executor`."""
        if inside.WORKER:
            raise PlacementError(
                _ATTEMPTED, name="process", value="a worker", rule="one that is no worker itself",
                hint="call the function directly",
            )  # fmt: skip
        name = call.name or getattr(call.fn, "__qualname__", "") or repr(call.fn)
        parcel = pack_call(shipped(call.fn), call.args, call.kwargs, name)
        parcel.check_size(self.options.payload_max_bytes, name)
        order = _RayCall(call, parcel, name, next(_call_ids))
        with self._lock:
            if self._closed:
                raise _closed_error()
            if len(self._waiting) >= self.options.queue and not self._idle:
                self._shed += 1
                raise Overloaded(
                    _ATTEMPTED, name="queue", value=self.options.queue, rule="fewer calls waiting",
                    hint="try later, shed load earlier, or raise cluster_workers",
                )  # fmt: skip
            self._orders[order.call_id] = order
            self._waiting.append(order)
        call.ticket = order.call_id
        call.add_done_callback(self._call_ended)
        self._dispatch()

    def cancel(self, call: Call) -> bool:
        """See `Executor`. One that runs ends on its worker at its next checkpoint."""
        return call.cancel()

    def stats(self) -> ExecutorStats:
        """See `Executor`."""
        with self._lock:
            return ExecutorStats(
                queued=len(self._waiting),
                running=sum(worker.order is not None for worker in self._workers.values()),
                workers=sum(worker.pid != 0 for worker in self._workers.values()),
                done=self._by_state[State.FINISHED],
                failed=self._by_state[State.FAILED],
                cancelled=self._by_state[State.CANCELLED],
                shed=self._shed,
            )

    def worker_pids(self) -> list[int]:
        """Process ids of the workers that are there, each on its own machine."""
        with self._lock:
            return [worker.pid for worker in self._workers.values() if worker.pid]

    def close(self, seconds: float) -> None:
        """See `Executor`. Workers that still run then are ended with the bridge, their calls fail."""
        with self._lock:
            self._closed = True
            waiting = [*self._waiting]
            self._waiting.clear()
            drained = all(worker.order is None for worker in self._workers.values())
        for order in waiting:
            order.fail(_closed_error())
        if not drained:
            self._drained.acquire(timeout=seconds)
        with self._lock:
            running = [*self._orders.values()]
            link, self._link = self._link, None
            self._workers.clear()
            self._idle.clear()
        for order in running:
            order.fail(_closed_error())
        if link is not None:
            # Ray ends this job's workers with their driver, however it ends; asked nicely, it waits for what runs.
            link.end(at_once=bool(running))

    # -- A call's way

    def _dispatch(self) -> None:
        """Give waiting calls to idle workers; ask for more workers if that is not enough."""
        while True:
            with self._lock:
                if not self._waiting or not self._idle:
                    self._start_workers()
                    return
                order, worker = self._waiting.popleft(), self._idle.pop()
                worker.order = order
                order.worker = worker
                link = self._link
            if link is None or not self._sent(link, worker, order):
                with self._lock:
                    worker.order = None
                    if worker.number in self._workers:
                        self._rest(worker)

    def _sent(self, link: Link, worker: _RayWorker, order: _RayCall) -> bool:
        """Begin a call and send it. False = it has ended."""
        call = order.call
        if not call.begin():
            return False
        left_ns = max(call.deadline_ns - time.monotonic_ns(), 1) if call.deadline_ns else 0
        parcel = order.parcel
        link.send(Frame(FrameKind.CALL, worker.number, order.call_id, left_ns, parcel.pickle, parcel.buffers))
        if call.state is not State.RUNNING:
            link.send(Frame(FrameKind.CANCEL, worker.number, order.call_id))
        return True

    def _call_ended(self, call: Call) -> None:
        """However it ended and on whatever thread: it no longer waits here, and its worker knows."""
        with self._lock:
            order = self._orders.pop(call.ticket, None)
            if order is None:
                return
            self._by_state[call.state] += 1
            with contextlib.suppress(ValueError):
                self._waiting.remove(order)
            worker, link = order.worker, self._link
            if link is not None and worker is not None and worker.order is order:
                link.send(Frame(FrameKind.CANCEL, worker.number, order.call_id))

    # -- Workers

    def _start_workers(self) -> None:
        """Start workers while calls wait that none is on its way for. Holds the lock."""
        if self._closed or not self._waiting:
            return
        if self._link is None:
            self._link = Link(self.options, self._heard, self._link_ended)
            start_new_thread(self._look_around, (self._link,))
        starting = sum(worker.pid == 0 for worker in self._workers.values())
        for _ in range(min(len(self._waiting) - starting, self.options.workers - len(self._workers))):
            worker = _RayWorker(next(_worker_ids), time.monotonic())
            self._workers[worker.number] = worker
            self._link.send(Frame(FrameKind.START, worker.number))

    def _rest(self, worker: _RayWorker) -> None:
        """A worker has nothing to do. Holds the lock."""
        worker.since_s = time.monotonic()
        self._idle.append(worker)

    def _look_around(self, link: Link) -> None:
        """Give back workers that have long had nothing to do, and those that do not come."""
        sleep = allocate_lock()
        sleep.acquire()
        while self._link is link:
            sleep.acquire(timeout=min(_LOOK_S, self.options.idle_s / 4))
            now_s = time.monotonic()
            with self._lock:
                if self._link is not link:
                    return
                for worker in [one for one in self._idle if now_s - one.since_s > self.options.idle_s]:
                    self._idle.remove(worker)
                    del self._workers[worker.number]
                    link.send(Frame(FrameKind.STOP, worker.number))
                late = [
                    one
                    for one in self._workers.values()
                    if not one.pid and now_s - one.since_s > self.options.start_timeout_s
                ]
            for worker in late:
                link.send(Frame(FrameKind.STOP, worker.number))
                waited = f"it did not come within {self.options.start_timeout_s:g} s"
                self._lost(worker, f"{waited}: no room, or no answer from cluster_address={self.options.address!r}")

    def _lost(self, worker: _RayWorker, reason: str) -> None:
        """A worker is gone: its call fails by name; if there is no other, so does what waits."""
        with self._lock:
            if self._workers.pop(worker.number, None) is None:
                return
            if worker in self._idle:
                self._idle.remove(worker)
            order, worker.order = worker.order, None
            nobody = not self._workers
            waiting = [*self._waiting] if not worker.pid and nobody else []
        if order is not None:
            order.fail(_died(f"run {order.name} on the cluster", worker.pid, reason))
        for other in waiting:
            other.fail(_died("start a worker on the cluster", 0, reason))
        self._tell_drained()
        self._dispatch()

    def _tell_drained(self) -> None:
        """Let `close` go on if no call is left. Called after the end of each call."""
        with self._lock:
            drained = self._closed and all(worker.order is None for worker in self._workers.values())
        if drained:
            with contextlib.suppress(RuntimeError):
                self._drained.release()

    # -- What the bridge says, on the link's thread

    def _heard(self, link: Link, frame: Frame) -> None:
        with self._lock:
            worker = self._workers.get(frame.worker) if self._link is link else None
        if frame.kind == FrameKind.REFUSED:
            self._refused(link, raised(unpack(frame.text, ())))
        elif worker is None:
            return  # It was given back, or its call closed: nobody waits.
        elif frame.kind == FrameKind.READY:
            with self._lock:
                worker.pid = frame.number
                self._rest(worker)
            self._dispatch()
        elif frame.kind == FrameKind.LOST:
            self._lost(worker, bytes(frame.text).decode(errors="replace"))
        elif frame.kind in (FrameKind.RESULT, FrameKind.ERROR):
            self._answered(worker, frame)

    def _answered(self, worker: _RayWorker, frame: Frame) -> None:
        with self._lock:
            order = worker.order
            if order is None or order.call_id != frame.call:
                return
            worker.order = None
            self._rest(worker)
        self._dispatch()
        if order.call.state is State.RUNNING:
            self._settle(order, frame)
        self._tell_drained()

    def _settle(self, order: _RayCall, frame: Frame) -> None:
        try:
            outcome = unpack(frame.text, frame.buffers)
        except Exception as error:
            order.fail(unreadable("read a result from the cluster", order.name, error))
            return
        if frame.kind == FrameKind.ERROR:
            order.fail(raised(outcome))
            return
        try:
            order.call.finish(outcome)
        except Exception:
            _LOG.exception("tell a caller that its placed call has ended")

    def _refused(self, link: Link, cause: BaseException) -> None:
        """Ray cannot be reached: waiting callers get the error."""
        error = PlacementError(
            "connect to the cluster", name="cluster_address", value=self.options.address,
            rule=f"a Ray that answers ({type(cause).__name__}: {cause})", hint="look whether it runs: ray status",
        )  # fmt: skip
        error.__cause__ = cause
        for order in self._forget(link):
            order.fail(error)
        self._tell_drained()

    def _link_ended(self, link: Link, code: int | None) -> None:
        # Ray ends its driver when it loses the cluster, and says so on stderr.
        told = {} if code is None or code < 0 else {"ended": f"exited with status {code}", "hint": _HINT_BRIDGE}
        for order in self._forget(link):
            attempted = f"run {order.name} on the cluster, by way of a bridge process"
            order.fail(WorkerDied(attempted, pid=link.pid, code=code, **told))
        self._tell_drained()

    def _forget(self, link: Link) -> list[_RayCall]:
        """A bridge is gone, and with it its workers: give the calls that it had, and those that waited for it."""
        with self._lock:
            if self._link is not link:
                return []
            self._link = None
            self._workers.clear()
            self._idle.clear()
            return [*self._orders.values()]

    # -- Forks and the end

    def _forked(self) -> None:
        """In the child of a fork: bridge and calls are the parent's."""
        link, closed = self._link, self._closed
        self._begin()
        self._closed = closed
        if link is not None:
            link.forked()


def _died(attempted: str, pid: int, reason: str) -> WorkerDied:
    hint = "look at it with `ray list actors`, and at Ray's logs"
    return WorkerDied(attempted, pid=pid, code=None, ended=f"is gone ({reason})", hint=hint)


def _closed_error() -> PlacementError:
    return PlacementError(
        _ATTEMPTED, name="executor", value="closed", rule="an open one", hint="call it before the program ends"
    )


def _at_exit() -> None:
    for executor in list(_all):
        executor.close(0)


atexit.register(_at_exit)
