"""The heavy lane: calls take turns on one real thread (on free-threaded builds: on as many as there are permits).

Why one: under the GIL a second thread that computes speeds nothing up, and the loop then competes with two of them.
Who is next is decided by core's permit queue: its holders are the calls that run, its waiters those that wait. By the
rules of heavy phases on threads, a short call begins beside a long one, and the next calls begin beside one that has
used its share of CPU. Each of them runs on one more thread, and takes turns there as a job of the permits.

A call that stands still (it sleeps, or waits for another call) must not stop the lane: while calls wait, a watching
thread looks whether those that run use CPU, and lends the place of one that does not to the next call, on one more
thread. So a placed function may wait for another one. A thread that has died is found the same way. It looks without
the GIL, and takes it only when it has found something: a thread that takes it 50 times a second costs who computes half
a per cent.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from greenlane import deadline
from greenlane._native import PermitQueue, StalledThreads
from greenlane.errors import Overloaded, PlacementError
from greenlane.placement.call import Call, Inline, State
from greenlane.placement.executor import ExecutorStats
from greenlane.policy.placed import QueueRule
from greenlane.threads.unpatched import (
    RLock,
    allocate_lock,
    get_native_id,
    in_forked_child,
    start_new_thread,
    start_program_thread,
    threads_are_green,
)

__all__ = ["NativeThreads"]

#: How often the running calls are looked at while others wait; what CPU between two looks means that one stands still
#: (a thread that waits for the GIL wakes each interval, which costs more); and for how many looks it may. Together long
#: enough that the kernel has not just put the thread aside, short enough for a call that waits for another one.
_LOOK_NS: Final = 20_000_000
_STILL_NS: Final = 5_000
_STILL_LOOKS: Final = 3
#: How often calls that compute are looked at for what they have used. That takes the GIL: it costs them 0.2 %.
_SHARES_LOOK_S: Final = 0.05
#: A call that is expected to take this many shares has a quarter of one, as a phase of a thread has.
_LONG: Final = 2
#: Threads besides those of the rule, for calls whose place has been lent. Arbitrary: who places what waits for I/O on
#: the heavy lane gets some of it done, and no flood of threads.
_MOST_LENT: Final = 32
_NAME: Final = "greenlane-lane"


class _Thread:
    """One thread: the call that it runs, and the lock that it sleeps on."""

    __slots__ = ("call", "coming", "from_cpu_ns", "lent", "thread", "wake")

    def __init__(self) -> None:
        self.call: Call | None = None
        # Its CPU clock when the call began.
        self.from_cpu_ns = 0
        # The kernel's number of the thread; 0 = it has not begun yet.
        self.thread = 0
        self.lent = False
        # Started or woken for a call, and not there yet.
        self.coming = True
        self.wake = allocate_lock()
        self.wake.acquire()


class NativeThreads:
    """An `Executor` of real threads in this process, made on demand. Cost: about 25 us a call that need not wait."""

    def __init__(
        self,
        rule: QueueRule,
        run: Callable[[Call], object] = Call.run,
        refuses: Callable[[], bool] = lambda: True,
        rests: Callable[[], object] = lambda: None,
    ) -> None:
        """Make the lane; no thread yet.

        Args:
            rule: how many calls run at once, and how many wait.
            run: runs a call on the lane's thread; must end it.
            refuses: whether a full queue refuses calls now; else it grows.
            rests: called by a thread that finds no call, before it sleeps or ends.
        """
        self._rule = rule
        self._run = run
        self._refuses = refuses
        self._rests = rests
        self.closed = False
        self._reset_state()
        in_forked_child(self._reset_state)

    def submit(self, call: Call) -> None:
        """Take a call; see `Executor`."""
        with self._lock:
            if self.closed:
                raise PlacementError("place a function on the native thread", hint="it has been closed: run it inline")
            most = self._rule.most_waiting
            if most is not None and len(self._waiting) >= most and self._refuses():
                self._shed += 1
                raise Overloaded(
                    "place a function on the native thread",
                    name="calls waiting",
                    value=len(self._waiting),
                    rule=f"fewer than {most}",
                    hint="offer less work, or raise placed_queue if the wait is wanted",
                )
            # Before anybody else has the call: its own lock is held meanwhile, and a signal's handler may come.
            call.add_done_callback(self._ended)
            self._ticket += 1
            call.ticket = self._ticket
            arrived = (call.arrival_ns, call.deadline_ns, call.expected_ns)
            if self._queue.request(time.monotonic_ns(), call.ticket, *arrived):
                self._ready.append(call)
            else:
                self._waiting[call.ticket] = call
                self._stalled.want(True)
        self._staff()

    def cancel(self, call: Call) -> bool:
        """End a call for its caller; see `Executor`."""
        return call.cancel()

    def stats(self) -> ExecutorStats:
        """Give counts."""
        with self._lock:
            return ExecutorStats(
                queued=len(self._waiting) + len(self._ready),
                running=sum(worker.call is not None for worker in self._workers),
                workers=len(self._workers),
                done=self._by_state[State.FINISHED],
                failed=self._by_state[State.FAILED],
                cancelled=self._by_state[State.CANCELLED],
                shed=self._shed,
            )

    def more(self) -> bool:
        """Whether calls wait."""
        return bool(self._waiting or self._ready)

    def close(self, seconds: float) -> None:
        """Refuse new calls, fail those that wait, let those that run end; see `Executor`."""
        with self._lock:
            self.closed = True
            waiting = [*self._waiting.values(), *self._ready]
        for call in waiting:
            call.fail(_closed())
        until = time.monotonic() + seconds
        while self.stats().running and time.monotonic() < until:
            self._sleep.acquire(timeout=0.005)
        with self._lock:
            running = [worker.call for worker in self._workers if worker.call is not None]
            idle = [*self._idle]
            self._idle.clear()
        for call in running:
            call.fail(_closed())
        for worker in idle:
            worker.wake.release()

    def _reset_state(self) -> None:
        """Start empty: a new lane, or a forked child, where neither the threads exist nor those who wait for them."""
        # Reentrant: a signal's handler, or a finalizer, may place a call in the middle of anything. See `is_mine`.
        self._lock = RLock()
        # Nobody releases it: acquiring it with a timeout sleeps, also where gevent has replaced `time.sleep`.
        self._sleep = allocate_lock()
        self._sleep.acquire()
        self._queue = PermitQueue(self._rule.threads)
        self._ticket = 0
        self._waiting: dict[int, Call] = {}
        self._ready: deque[Call] = deque()
        self._workers: set[_Thread] = set()
        self._idle: list[_Thread] = []
        self._watched = self._shares_watched = False
        self._stalled = StalledThreads()
        self._shed = 0
        self._by_state = dict.fromkeys(State, 0)

    def is_mine(self) -> bool:
        """Whether this thread is in the middle of what only it can end: a call would wait for itself."""
        return bool(self._lock._is_owned())

    def _staff(self) -> None:
        """See to it that each call that may run has a thread, and that somebody watches while others wait.

        All of it under the lock: a thread that counts as coming must come, whatever interrupts this one.
        """
        failed: list[Call] = []
        reason = ""
        with self._lock:
            for _ in range(len(self._ready) - sum(worker.coming for worker in self._workers)):
                if self._idle:
                    worker = self._idle.pop()
                    worker.coming = True
                    worker.wake.release()
                    continue
                worker = _Thread()
                self._workers.add(worker)
                try:
                    start_program_thread(self._work, (worker,))
                except RuntimeError as error:  # no room for a thread, or the interpreter is ending
                    self._workers.discard(worker)
                    reason = str(error)
                    if not self._workers:
                        failed = [*self._ready, *self._waiting.values()]
            with contextlib.suppress(RuntimeError):  # No room for a thread: the next call tries again.
                if self._waiting and not self._watched:
                    start_new_thread(self._watch, ())
                    self._watched = True
                if self._waiting and not self._shares_watched:
                    start_new_thread(self._watch_shares, ())
                    self._shares_watched = True
        for call in failed:
            call.fail(PlacementError("start the native thread", name="thread", value=reason, rule="one more"))

    def _work(self, worker: _Thread) -> None:
        """Run calls until there is no use for this thread."""
        mine = self._lock  # After a fork on this thread the lane has another one, and none of this thread's business.
        # A finalizer's call between two calls runs here: there is nobody else.
        deadline.CURRENT.set(Inline(None))
        worker.thread = get_native_id()
        _look_like_a_thread()
        try:
            while self._lock is mine and (call := self._next(worker)) is not None:
                if worker.lent or self._ready:
                    self._staff()
                try:
                    self._run(call)
                except BaseException as error:  # `run` ends its call: only an exception from outside comes here.
                    call.fail(error)
                del call
        finally:
            if self._lock is mine:
                self._leave(worker)

    def _next(self, worker: _Thread) -> Call | None:
        """Give the next call that begins on this thread, or None when the thread is to end. Sleeps."""
        while True:
            with self._lock:
                worker.coming = False
                watched = worker.call is not None and not worker.lent
                self._let_go(worker)
                if watched is not bool(self._ready):
                    self._stalled.change()
                if self._ready:
                    call = self._ready.popleft()
                    worker.call, worker.lent, worker.from_cpu_ns = call, False, time.thread_time_ns()
                    self._widen(worker)
                    return call
                # One more stays for a short call beside a long one: a thread that starts beside it takes 4 ms.
                ends = self.closed or len(self._idle) > self._rule.threads
                if not ends:
                    self._idle.append(worker)
            self._rests()
            if ends:
                return None
            worker.wake.acquire()

    def _widen(self, worker: _Thread) -> None:
        """Let others run beside a call that leaves the GIL to them. Holds the lock."""
        call = worker.call
        if call is None or worker.lent:
            return
        running = sum(other.call is not None for other in self._workers) + len(self._ready)
        if running < min(call.width, self._rule.threads + _MOST_LENT):
            self._lend(worker, self._queue.lend(call.ticket))

    def _lend(self, worker: _Thread, granted: list[int]) -> None:
        """Let the next calls begin beside one that has given its place on. Holds the lock."""
        worker.lent = True
        self._stalled.change()
        self._grant(granted)

    def _let_go(self, worker: _Thread) -> None:
        """Take the place from the call that has run here, for the next one. Holds the lock."""
        if worker.call is not None:
            granted = self._queue.release(worker.call.ticket)
            worker.call, worker.lent = None, False
            self._grant(granted)
            for other in [*self._workers]:  # a finalizer may place a call
                self._widen(other)

    def _grant(self, tickets: list[int]) -> None:
        self._ready.extend(self._waiting.pop(ticket) for ticket in tickets)
        self._stalled.want(bool(self._waiting))

    def _ended(self, call: Call) -> None:
        """Count how a call ended; one that still waited gives up its place in the queue."""
        with self._lock:
            self._by_state[call.state] += 1
            if self._waiting.pop(call.ticket, None) is not None:
                self._grant(self._queue.cancel(call.ticket))
            elif call in self._ready:
                self._ready.remove(call)
                self._grant(self._queue.release(call.ticket))

    def _leave(self, worker: _Thread) -> None:
        """Take a thread that ends, or has ended, off the lane; its call fails, and another thread goes on."""
        with self._lock:
            call = worker.call
            self._stalled.change()
            self._workers.discard(worker)
            if worker in self._idle:
                self._idle.remove(worker)
            self._let_go(worker)
        if call is not None:
            call.fail(PlacementError("run a placed function", name="its thread", value="ended", rule="it lives"))
        self._staff()

    def _watch(self) -> None:
        """Look at the running calls until none waits."""
        mine, standing = self._lock, self._stalled
        while self._lock is mine:
            with mine:
                if not self._waiting:
                    self._watched = False
                    return
                at_work = [worker for worker in self._workers if worker.call is not None or worker.coming]
                threads = [worker.thread for worker in at_work if worker.thread and not worker.lent]
            for thread, cpu_ns in standing.wait(threads, _LOOK_NS, _STILL_NS, _STILL_LOOKS):
                self._stands(thread, cpu_ns)
            self._staff()

    def _stands(self, thread: int, before_ns: int | None) -> None:
        """Lend the place of a call that has stood still; end that of a thread that has died.

        Args:
            thread: the kernel's number of its thread.
            before_ns: the thread's CPU clock when it was seen; None = it had none.
        """
        with self._lock:
            worker = next((each for each in self._workers if each.thread == thread), None)
            if worker is None or worker.lent:
                return
            call, cpu_ns = worker.call, _cpu_ns(thread)
            # It has begun, and has not moved since: neither on, nor to another call.
            if call is not None and call.begun_ns and cpu_ns is not None and before_ns is not None:
                if cpu_ns - before_ns < _STILL_NS and self._has_room():
                    self._lend(worker, self._queue.lend(call.ticket))
        if cpu_ns is None:
            self._leave(worker)

    def _watch_shares(self) -> None:
        """Let others begin beside calls that have used their share, until none waits."""
        mine = self._lock
        while self._lock is mine:
            with mine:
                if not self._waiting:
                    self._shares_watched = False
                    return
                for worker in [*self._workers]:  # a finalizer may place a call
                    call = worker.call
                    if call is not None and not worker.lent and self._has_room() and self._has_used_share(worker, call):
                        self._lend(worker, self._queue.share(call.ticket))
            self._staff()
            self._sleep.acquire(timeout=_SHARES_LOOK_S)

    def _has_used_share(self, worker: _Thread, call: Call) -> bool:
        share_ns = self._rule.share_ns
        if call.expected_ns >= _LONG * share_ns:
            share_ns //= 4
        cpu_ns = _cpu_ns(worker.thread)
        return cpu_ns is not None and cpu_ns - worker.from_cpu_ns >= share_ns

    def _has_room(self) -> bool:
        return len(self._workers) < self._rule.threads + _MOST_LENT


def _closed() -> PlacementError:
    return PlacementError("run a placed function", name="the native thread", value="closed", rule="it is open")


def _cpu_ns(thread: int) -> int | None:
    """Read the CPU clock of any thread of this process; None = it has ended."""
    try:
        # The kernel's clock of one thread: its number, complemented, above the bits "per thread" and "scheduler".
        return time.clock_gettime_ns((~thread << 3) | 6)
    except OSError:
        return None


def _look_like_a_thread() -> None:
    """Give this thread a name, and the tracers that `threading` gives its own (coverage, debuggers)."""
    if not threads_are_green():  # Else `threading` speaks of gevent's, which this is none of.
        threading.current_thread().name = _NAME
        sys.settrace(threading.gettrace())
        sys.setprofile(threading.getprofile())
    with contextlib.suppress(OSError), open(f"/proc/self/task/{get_native_id()}/comm", "w") as comm:
        comm.write(_NAME)
