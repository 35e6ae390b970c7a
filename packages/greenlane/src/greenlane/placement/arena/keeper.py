"""A thread that starts workers, notices their ends, replaces them, and watches the clock.

It waits in the kernel, and wakes for a death, a birth, a deadline, and for answers to callers on plain threads, who
have no loop for them to ring on. It lives as long as the workers: the kernel ends them with the thread that made them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import Final, Protocol

from greenlane._native import Poll
from greenlane.errors import WorkerDied
from greenlane.placement.arena.answers import raised
from greenlane.placement.arena.homes import Home
from greenlane.placement.arena.launch import launch
from greenlane.placement.arena.memory import SharedArrays
from greenlane.placement.arena.options import ArenaOptions
from greenlane.placement.arena.parcel import unpack
from greenlane.placement.arena.protocol import ERROR, READY, Letter
from greenlane.placement.arena.worker import ArenaCall, ArenaWorker
from greenlane.threads.fork_warning import mark_thread
from greenlane.threads.unpatched import allocate_lock, start_new_thread

__all__ = ["Keeper", "KeptWorkers"]

_NEVER_NS: Final = 1 << 62
_SECOND_NS: Final = 1_000_000_000
# A worker that lived this long, or answered this many calls, was healthy: the next need not die too.
_WELL_NS: Final = 5 * _SECOND_NS
_WELL_CALLS: Final = 10
# The second start after two quick deaths waits this long, the next twice as long, to the most. Arbitrary: a worker that
# dies of its start costs some 0.1 s of CPU.
_FIRST_PAUSE_NS: Final = 50_000_000
_LONGEST_PAUSE_NS: Final = 5 * _SECOND_NS
# An idle worker ends by itself when its channel closes: time for its exit handlers.
_END_NS: Final = 2 * _SECOND_NS
_LOG: Final = logging.getLogger("greenlane")


class KeptWorkers(Protocol):
    """What a keeper does its work for."""

    options: ArenaOptions

    def ring_one(self, home: Home, fd: int) -> None:
        """Read the answer on this channel."""

    def read(self, worker: ArenaWorker) -> bool:
        """Read an answer of this worker, if there is one."""

    def move(self, worker: ArenaWorker, home: Home) -> None:
        """Let the worker's answers ring there."""

    def welcome(self, worker: ArenaWorker) -> None:
        """Use this new worker."""

    def withdraw(self, worker: ArenaWorker) -> None:
        """Stop giving calls to this worker; `free` is set once it has none."""

    def forget(self, worker: ArenaWorker) -> ArenaCall | None:
        """Give what a dead worker was running."""

    def again(self, order: ArenaCall) -> None:
        """Run an order that its worker had not begun."""

    def orders(self) -> list[ArenaCall]:
        """Calls that have not ended."""

    def ready_workers(self) -> list[ArenaWorker]:
        """Workers that are in use."""

    def fail_closed(self, worker: ArenaWorker) -> None:
        """Fail what this worker still runs: the executor is closed."""

    def fail_waiting(self, error: BaseException) -> None:
        """Nobody will run what waits."""


class Keeper:
    """The thread, and the home of workers whose callers have no loop."""

    def __init__(self, pool: KeptWorkers) -> None:
        self.poll = Poll()
        self.starts = 0
        self.deaths = 0
        self._pool = pool
        self._lock = allocate_lock()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.poll.add(self._bell)
        #: Arrays that all workers see.
        self.shared = SharedArrays(pool.options.shared_bytes)
        # By the descriptor that tells of the event.
        self._starting: dict[int, ArenaWorker] = {}
        self._alive: dict[int, ArenaWorker] = {}
        # Those that were asked to end, and until when.
        self._ending: dict[ArenaWorker, int] = {}
        # Running calls whose callers have left.
        self._left: list[ArenaCall] = []
        # When to look at the clocks of calls.
        self._due_ns = _NEVER_NS
        self._quick_deaths = 0
        self._pause_until_ns = 0
        # When the running calls must be done; None = it is not closing.
        self._close_ns: int | None = None
        self._gone = False
        self._done = allocate_lock()
        self._done.acquire()
        start_new_thread(self._run, ())

    # -- For other threads

    def runs(self) -> bool:
        """It does, as long as the executor."""
        return True

    def end(self) -> None:
        """Nothing: `close` ends it."""

    def wake(self) -> None:
        """Let it look around."""
        with self._lock:
            if not self._gone:
                os.eventfd_write(self._bell, 1)

    def expect(self, when_ns: int) -> None:
        """Let it look at the clocks of calls at this time."""
        with self._lock:
            if when_ns < self._due_ns and not self._gone:
                self._due_ns = when_ns
                os.eventfd_write(self._bell, 1)

    def left(self, order: ArenaCall) -> None:
        """The caller of this running call has left: its worker may be killed for it, in a while."""
        order.left_ns = time.monotonic_ns()
        with self._lock:
            self._left.append(order)
        self.expect(order.left_ns + self._grace_ns())

    def close(self, seconds: float) -> None:
        """Let running calls end for up to `seconds`, then end all workers and this thread. Blocks; idempotent."""
        self._close_ns = time.monotonic_ns() + int(seconds * _SECOND_NS)
        self.wake()
        # The rest is for workers that have to be killed and reaped; more means that a process cannot be killed.
        if self._done.acquire(timeout=seconds + 2 * _END_NS / _SECOND_NS):
            self._done.release()

    def forked(self) -> None:
        """In the child of a fork, which lacks its thread: close descriptors."""
        self._lock = allocate_lock()
        if self._gone:
            return
        self._gone = True
        for worker in self._alive.values():
            worker.close()
        self.poll.close()
        self.shared.close()
        os.close(self._bell)

    # -- The thread

    def _run(self) -> None:
        mark_thread()
        while not self._is_finished():
            try:
                self._step()
            except Exception:  # our bug; without this thread a death would go unnoticed
                _LOG.exception("keep worker processes")
                self.poll.wait(100)
        with self._lock:
            self._gone = True
            self.poll.close()
            self.shared.close()
            os.close(self._bell)
        self._done.release()

    def _is_finished(self) -> bool:
        return self._close_ns is not None and not self._alive

    def _step(self) -> None:
        now_ns = time.monotonic_ns()
        if self._close_ns is not None:
            self._close_workers(now_ns)
        else:
            self._replace_worn()
            self._start_missing(now_ns)
        self._end_overdue(now_ns)
        if now_ns >= self._due_ns:
            self._look_at_clocks(now_ns)
        if self._is_finished():
            return
        for fd in self.poll.wait(self._timeout_ms()):
            self._heard(fd)

    def _heard(self, fd: int) -> None:
        if fd == self._bell:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell)
        elif fd in self._alive:
            self._bury(self._alive[fd])
        elif fd in self._starting:
            self._greet(self._starting[fd])
        else:
            self._pool.ring_one(self, fd)

    def _timeout_ms(self) -> int:
        times = [self._due_ns, *self._ending.values()]
        times += [worker.started_ns + self._start_ns() for worker in self._starting.values()]
        if self._close_ns is not None:
            times.append(self._close_ns)
        elif self._missing():
            times.append(self._pause_until_ns)
        first = min(times)
        if first == _NEVER_NS:
            return -1
        return min(max(-(-(first - time.monotonic_ns()) // 1_000_000), 0), 3_600_000)

    # -- Births

    def _missing(self) -> int:
        fresh = sum(not self._is_worn(worker) for worker in self._pool.ready_workers())
        return self._pool.options.worker_count - fresh - len(self._starting)

    def _start_missing(self, now_ns: int) -> None:
        if now_ns < self._pause_until_ns:
            return
        for _ in range(self._missing()):
            try:
                worker = launch(self._pool.options, self.shared)
            except Exception as error:  # no process, memory or descriptor: the waiting callers get the error
                self._pause(now_ns)
                self._fail_waiting(error)
                return
            self.starts += 1
            self._starting[worker.channel.fileno()] = worker
            self._alive[worker.pidfd] = worker
            self.poll.add(worker.channel.fileno())
            self.poll.add(worker.pidfd)

    def _greet(self, worker: ArenaWorker) -> None:
        """A new worker has said something: that it is ready, or why not."""
        with worker.reading:
            letter = worker.inbox.receive()
        if letter is None:
            return
        fd = worker.channel.fileno()
        if letter and letter[0] == READY:
            del self._starting[fd]
            worker.ready_ns = time.monotonic_ns()
            worker.home = self
            self._pool.welcome(worker)
            return
        self.poll.remove(fd)
        if letter:
            worker.start_error = _raised(letter)
        else:
            worker.kill()

    # -- Deaths

    def _bury(self, worker: ArenaWorker) -> None:
        """The process is gone: what it said before counts, its call fails by name."""
        fd = worker.channel.fileno()
        was_starting = self._starting.pop(fd, None) is not None
        if was_starting:
            with contextlib.suppress(OSError):
                self._greet_last(worker)
        while self._pool.read(worker):
            pass
        order = self._pool.forget(worker)
        code = worker.reap()
        asked = self._ending.pop(worker, None) is not None
        del self._alive[worker.pidfd]
        self.poll.remove(worker.pidfd)
        if worker.home is not None:
            worker.home.poll.remove(fd)
        last_words = worker.last_words()
        with worker.reading:
            worker.close()
        if not asked:
            self._died(worker)
        if order is not None:
            self._end_order(worker, order, code, last_words)
        if was_starting and not asked:
            self._fail_waiting(_not_started(worker, code, last_words))

    def _greet_last(self, worker: ArenaWorker) -> None:
        """What a worker said before it died of its start; a READY comes too late."""
        letter = worker.inbox.receive()
        if letter and letter[0] == ERROR:
            worker.start_error = _raised(letter)

    def _end_order(self, worker: ArenaWorker, order: ArenaCall, code: int | None, last_words: str) -> None:
        if not worker.has_begun(order) and self._close_ns is None:
            self._pool.again(order)
            return
        attempted = f"run {order.name} in a worker process"
        order.fail(WorkerDied(attempted, pid=worker.pid, code=code, last_line=last_words))

    def _died(self, worker: ArenaWorker) -> None:
        self.deaths += 1
        now_ns = time.monotonic_ns()
        if worker.calls >= _WELL_CALLS or (worker.ready_ns and now_ns - worker.ready_ns > _WELL_NS):
            self._quick_deaths = 0
        self._pause(now_ns)

    def _pause(self, now_ns: int) -> None:
        """The first start after a death is at once; those after further quick ones wait longer and longer."""
        if self._quick_deaths:
            pause_ns = min(_FIRST_PAUSE_NS << min(self._quick_deaths - 1, 16), _LONGEST_PAUSE_NS)
            self._pause_until_ns = now_ns + pause_ns
        self._quick_deaths += 1

    def _fail_waiting(self, error: BaseException) -> None:
        """Nobody is there to run what waits, and the next start may fare no better."""
        if not self._pool.ready_workers():
            self._pool.fail_waiting(error)

    # -- Ends that we want

    def _is_worn(self, worker: ArenaWorker) -> bool:
        most = self._pool.options.max_calls
        return bool(most) and worker.calls >= most

    def _replace_worn(self) -> None:
        """Workers that had their calls go once there are enough others."""
        workers = self._pool.ready_workers()
        fresh = sum(not self._is_worn(worker) for worker in workers)
        for worker in workers:
            if self._is_worn(worker) and (worker.retiring or fresh >= self._pool.options.worker_count):
                self._dismiss(worker)

    def _dismiss(self, worker: ArenaWorker) -> None:
        self._pool.withdraw(worker)
        if worker.free and worker not in self._ending:
            self._pool.forget(worker)
            if worker.home is not None:
                worker.home.poll.remove(worker.channel.fileno())
            with worker.reading:
                worker.channel.close()
            self._ending[worker] = time.monotonic_ns() + _END_NS

    def _close_workers(self, now_ns: int) -> None:
        assert self._close_ns is not None
        for worker in self._starting.values():
            self._ending.setdefault(worker, 0)
        for worker in self._pool.ready_workers():
            if worker.home is not self:
                with worker.reading, contextlib.suppress(OSError):
                    self._pool.move(worker, self)
            self._dismiss(worker)
            if now_ns >= self._close_ns and not worker.free:
                self._pool.fail_closed(worker)
                self._ending.setdefault(worker, 0)

    def _end_overdue(self, now_ns: int) -> None:
        for worker, until_ns in self._ending.items():
            if now_ns >= until_ns:
                worker.kill()
                # Until the kernel has told of its end there is nothing to do for it.
                self._ending[worker] = _NEVER_NS
        for worker in self._starting.values():
            if now_ns >= worker.started_ns + self._start_ns():
                worker.kill()
                worker.started_ns = now_ns

    # -- Clocks of calls

    def _look_at_clocks(self, now_ns: int) -> None:
        with self._lock:
            self._due_ns = _NEVER_NS
            left, self._left = self._left, []
        for order in self._pool.orders():
            due_ns = order.call.deadline_ns
            if due_ns and due_ns <= now_ns:
                order.expire()
            elif due_ns:
                self.expect(due_ns)
        for order in left:
            if now_ns >= order.left_ns + self._grace_ns():
                self._end_left(order)
                continue
            with self._lock:
                self._left.append(order)
            self.expect(order.left_ns + self._grace_ns())

    def _end_left(self, order: ArenaCall) -> None:
        """Kill the worker that still runs it. With its channel in hand: so no other call can begin there meanwhile."""
        worker = order.worker
        if worker is not None:
            with worker.reading:
                if worker.order is order:
                    worker.kill()

    def _grace_ns(self) -> int:
        return int(self._pool.options.kill_after_s * _SECOND_NS)

    def _start_ns(self) -> int:
        return int(self._pool.options.start_timeout_s * _SECOND_NS)


def _not_started(worker: ArenaWorker, code: int | None, last_words: str) -> WorkerDied:
    attempted, cause = "start a worker process", worker.start_error
    if cause is None:
        return WorkerDied(attempted, pid=worker.pid, code=code, last_line=last_words)
    ended = f"ended, since its warm-up raised {type(cause).__name__}: {cause}"
    hint = "mend the warm-up, or leave it out"
    error = WorkerDied(attempted, pid=worker.pid, code=code, last_line=last_words, ended=ended, hint=hint)
    error.__cause__ = cause
    return error


def _raised(letter: Letter) -> BaseException:
    return raised(unpack(letter[4], letter[5]))
