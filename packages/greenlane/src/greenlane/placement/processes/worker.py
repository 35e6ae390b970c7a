"""A worker process as its parent sees it, and the thread that keeps one: starts it, hears its answers, replaces it."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import logging
import os
import pickle
import posix  # gevent replaces what `os` has of it
import select
import signal
import sys
import time
from typing import Any, Final, Protocol

from greenlane.errors import WorkerDied
from greenlane.placement import Call, interpreter
from greenlane.placement.processes.answers import raised
from greenlane.placement.processes.messages import CALL, READY, START, End, Message, Page
from greenlane.placement.processes.names import main_module, name_of
from greenlane.placement.processes.options import ProcessOptions
from greenlane.placement.processes.parcel import Parcel, unpack
from greenlane.threads.fork_warning import mark_thread
from greenlane.threads.unpatched import allocate_lock, poll, start_new_thread

__all__ = ["Keeper", "Order", "ProcessWorker", "Worker", "exit_status", "readable"]

_MODULE: Final = "greenlane.placement.processes.child"
# What is the parent's alone: a worker has no jobs to record, and no permits to show.
_PARENTS: Final = ("GREENLANE_RECORD_FOLDER", "GREENLANE_CONTROL_DIR")
# Arbitrary: faulthandler's first lines say which signal and where.
_CRASH_BYTES: Final = 4096
# A worker that lived this long, or answered this many calls, was healthy: the next need not die too. So was one that we
# ended, since its caller had left.
_WELL_S: Final = 5.0
_WELL_CALLS: Final = 1
# The second start after two quick deaths waits this long, the next twice as long, to the most. Arbitrary: a worker that
# dies of its start costs some 0.1 s of CPU.
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 5.0
# A worker ends by itself when its parent hangs up: time for its exit handlers.
_END_S: Final = 2.0
# How often it is looked whether calls wait for a worker that could not be started.
_LOOK_S: Final = 0.2
_LOG: Final = logging.getLogger("greenlane")


@dataclasses.dataclass(slots=True, eq=False)
class Order:
    """A call on its way through an executor."""

    call: Call
    parcel: Parcel
    name: str
    # Never used twice in a process; counts from 1.
    call_id: int
    # Given to a worker, at least once.
    begun: bool = False
    # How often its worker was gone before it had begun it.
    returns: int = 0
    # To which.
    worker: Worker | None = None
    # When its caller left although it runs, monotonic; 0 = it has not.
    left_s: float = 0.0

    # A callback must not raise. One that does is its caller's trouble, not that of the calls after it.

    def finish(self, result: object) -> None:
        """End the call with a result."""
        self._end(self.call.finish, result)

    def fail(self, error: BaseException) -> None:
        """End the call with an error."""
        self._end(self.call.fail, error)

    def _end(self, end: Any, outcome: object) -> None:
        try:
            end(outcome)
        except Exception:
            _LOG.exception("tell a caller that its placed call has ended")


class Worker(abc.ABC):
    """What runs one call at a time: its end of a socket pair, and the page that both see."""

    #: For messages.
    where = "in a worker process"

    def __init__(self, end: End, page: Page, pid: int, pidfd: int) -> None:
        """Take what it has been started as.

        Args:
            end: this side's.
            page: what both see.
            pid: the process on this machine that it is, or is reached through.
            pidfd: its descriptor. Its end counts: a child of it may keep the socket open.
        """
        self.end = end
        self.page = page
        self.pid = pid
        self.pidfd = pidfd
        self._waiting = poll()
        self._waiting.register(end.fileno(), select.POLLIN)
        self._waiting.register(pidfd, select.POLLIN)
        # When it was ready; 0 = not yet.
        self.ready_s = 0.0
        # How long it was waited for in vain; 0 = it was not.
        self.late_s = 0.0
        # What it runs; under the executor's lock.
        self.order: Order | None = None
        self.calls = 0
        # Held while somebody sends: nobody closes meanwhile.
        self._sending = allocate_lock()

    def send(self, order: Order) -> None:
        """Send a call. Raises OSError: it is gone, or there is no memory."""
        parcel, due_ns = order.parcel, order.call.deadline_ns
        with self._sending:
            self.end.send(CALL, order.call_id, due_ns, parcel, names_main=parcel.names_main)

    def says(self, within_s: float | None) -> Message | None:
        """Wait for what it says; None = nothing within this time (None = for ever), or it is gone. Raises OSError."""
        ready = self._waiting.poll(None if within_s is None else within_s * 1000)
        return self.end.receive() if any(fd == self.end.fileno() for fd, _ in ready) else None

    def has_ended(self) -> bool:
        """Whether its process is gone."""
        return readable(self.pidfd, 0)

    @abc.abstractmethod
    def kill(self) -> None:
        """End it now, whatever it does."""

    @abc.abstractmethod
    def reap(self) -> tuple[int | None, str]:
        """Wait for its end: gives its exit status (negative = the signal, None = unknown), and its last words."""

    def close(self) -> None:
        """Close descriptors; views of results keep their memory."""
        with self._sending:
            self.forget()

    def forget(self) -> None:
        """Close descriptors in a forked child, where nobody sends."""
        self.end.close()

    def not_started(self, code: int | None, last_line: str, cause: BaseException | None) -> BaseException:
        """Say why it could not start; `cause` is what it said itself."""
        attempted = "start a worker process"
        if cause is None:
            ended = f"was not ready within {self.late_s:g} s" if self.late_s else ""
            hint = "look at what its warm-up waits for" if ended else ""
            return WorkerDied(attempted, pid=self.pid, code=code, last_line=last_line, ended=ended, hint=hint)
        ended = f"ended, since its warm-up raised {type(cause).__name__}: {cause}"
        hint = "mend the warm-up, or leave it out"
        error = WorkerDied(attempted, pid=self.pid, code=code, last_line=last_line, ended=ended, hint=hint)
        error.__cause__ = cause
        return error


class ProcessWorker(Worker):
    """A process of this machine."""

    def __init__(self, options: ProcessOptions) -> None:
        """Start it: a fresh interpreter. It says READY when it is, or ERROR when its warm-up raised.

        Call it on a thread that lives as long as the worker shall: the kernel ends the worker with it.

        Raises:
            OSError: no process or memory file could be made. Nothing is left.
        """
        with contextlib.ExitStack() as its:
            end, socket = End.pair()
            its.callback(socket.close)
            shared, page = Page.make()
            its.callback(os.close, page)
            # Not sealed: it grows when the worker crashes.
            crash = os.memfd_create("greenlane-crash", os.MFD_CLOEXEC)
            with contextlib.ExitStack() as ours:
                ours.callback(end.close)
                ours.callback(os.close, crash)
                environ = {name: value for name, value in os.environ.items() if name not in _PARENTS}
                warm_up = "" if options.warm_up is None else name_of(options.warm_up)
                end.send(START, 0, 0, Parcel(pickle.dumps((warm_up, sys.argv, *main_module())), []))
                # In the order that `child` has them.
                pid = interpreter.start(_MODULE, [socket.fileno(), page, crash], environ)
                ours.pop_all()
        super().__init__(end, shared, pid, os.pidfd_open(pid))
        self._crash = crash

    def kill(self) -> None:
        """SIGKILL, to this process and no other that may have got its number."""
        with contextlib.suppress(OSError):  # gone, or buried
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def reap(self) -> tuple[int | None, str]:
        """Wait for its end: gives its exit status (negative = the signal, None = unknown), and its last words."""
        if not readable(self.pidfd, _END_S):
            self.kill()
        code = exit_status(self.pidfd)
        crash = os.pread(self._crash, _CRASH_BYTES, 0).decode(errors="replace").splitlines()
        if not crash:
            return code, self.page.last_line
        where = next((line.strip() for line in crash if line.startswith("  File ")), "")
        return code, f"{crash[0]}; {where}" if where else crash[0]

    def forget(self) -> None:
        """See `Worker`."""
        self.end.close()
        for fd in (self.pidfd, self._crash):
            if fd >= 0:
                os.close(fd)
        self.pidfd = self._crash = -1


class Pool(Protocol):
    """What a keeper does its work for."""

    options: ProcessOptions
    closed: bool

    def start_worker(self) -> Worker:
        """Start one. Raises OSError: it could not be made."""

    def is_wanted(self) -> bool:
        """Whether calls wait."""

    def hand_next(self, worker: Worker) -> None:
        """Give a free worker its next call."""

    def take(self, worker: Worker) -> Order | None:
        """Give what a worker was running; it has no call afterwards."""

    def settle(self, order: Order, message: Message) -> None:
        """End a call with its answer."""

    def put_back(self, order: Order, died: WorkerDied) -> None:
        """Run an order that its worker had not begun; after some such, fail it."""

    def fail_waiting(self, error: BaseException) -> None:
        """Fail what waits, if no keeper can start a worker."""


class Keeper:
    """A thread with one worker at a time. It lives as long as the pool: the kernel ends the worker with it."""

    def __init__(self, pool: Pool) -> None:
        self.worker: Worker | None = None
        self.starts = self.deaths = 0
        self._pool = pool
        self._quick_deaths = 0
        # Whether the last start has failed: then the next one waits for a call.
        self.failed = False
        self._bell, self._ended = allocate_lock(), allocate_lock()
        self._bell.acquire()
        self._ended.acquire()
        start_new_thread(self._run, ())

    def hang_up(self) -> None:
        """Let a worker that has no call end, and this thread with it: the pool is closed."""
        with contextlib.suppress(RuntimeError):
            self._bell.release()
        worker = self.worker
        if worker is not None and not worker.ready_s:
            worker.kill()
        elif worker is not None and worker.order is None:
            worker.end.hang_up()

    def wait(self, seconds: float) -> bool:
        """Wait for the thread's end. False = it has not ended."""
        if self._ended.acquire(timeout=max(seconds, 0)):
            self._ended.release()
            return True
        return False

    def _run(self) -> None:
        mark_thread()
        try:
            while not self._pool.closed:
                try:
                    self._keep_one()
                except Exception as error:  # no process, memory or descriptor: the waiting callers get the error
                    self.failed = True
                    self._pool.fail_waiting(error)
                    self._pause()
        finally:
            self._ended.release()

    def _keep_one(self) -> None:
        worker = self._pool.start_worker()
        self.worker = worker
        self.starts += 1
        problem: BaseException | None = None
        fault: BaseException | None = None
        try:
            problem = self._greet(worker)
            if worker.ready_s:
                self._serve(worker)
        except BaseException as error:  # what it says cannot be read: no descriptor or memory is left here
            fault = error.with_traceback(None)  # its frames hold views
        order = self._pool.take(worker)
        asked = self._pool.closed or (self._is_worn(worker) and fault is None)
        if order is not None or not worker.ready_s or fault is not None:
            worker.kill()
        code, last_line = worker.reap()
        self.worker = None
        worker.close()
        if order is not None:
            died = _died(worker, order, code, last_line, fault)
            if not self._pool.closed and worker.page.begun != order.call_id:
                self._pool.put_back(order, died)
            else:
                order.fail(died)
        if not asked:
            self.deaths += 1
            self.failed = not worker.ready_s
            if self.failed:
                self._pool.fail_waiting(worker.not_started(code, last_line, problem) if fault is None else fault)
            lived_s = time.monotonic() - worker.ready_s if worker.ready_s else 0.0
            if worker.calls >= _WELL_CALLS or lived_s > _WELL_S or (order is not None and order.left_s):
                self._quick_deaths = 0
            self._pause()

    def _greet(self, worker: Worker) -> BaseException | None:
        """Wait until it is ready; gives what its warm-up raised."""
        within_s, from_s = self._pool.options.start_timeout_s, time.monotonic()
        message = None if self._pool.closed else worker.says(within_s)
        if message is not None and message.kind != READY:
            return raised(unpack(message.text, message.buffers))
        if message is not None:
            worker.ready_s = time.monotonic()
            self.failed = False
        elif time.monotonic() - from_s >= within_s:
            worker.late_s = within_s
        return None

    def _serve(self, worker: Worker) -> None:
        """Read answers until it is gone, or worn."""
        pool = self._pool
        pool.hand_next(worker)
        while (message := self._heard(worker)) is not None:
            order = pool.take(worker)
            worker.calls += 1
            worn = self._is_worn(worker)
            try:
                if worn:
                    worker.end.hang_up()
                else:
                    pool.hand_next(worker)
            finally:
                if order is not None:
                    pool.settle(order, message)
            del message, order  # Views of the result are the caller's alone.
            if worn:
                return

    def _heard(self, worker: Worker) -> Message | None:
        """Wait for an answer; None = it is gone, or is to go. Raises OSError: it cannot be read."""
        grace_s = self._pool.options.kill_after_s
        while True:
            message = worker.says(grace_s / 4 if grace_s else None)
            order = worker.order
            if message is not None or not grace_s or worker.has_ended():
                return message
            if order is not None and order.left_s and time.monotonic() > order.left_s + grace_s:
                return None

    def _is_worn(self, worker: Worker) -> bool:
        most = self._pool.options.max_calls
        return bool(most) and worker.calls >= most

    def _pause(self) -> None:
        """The first start after a death is at once; those after further quick ones wait longer and longer."""
        if self._quick_deaths and not self._pool.closed:
            self._bell.acquire(timeout=min(_FIRST_PAUSE_S * 2.0 ** (self._quick_deaths - 1), _LONGEST_PAUSE_S))
        self._quick_deaths = min(self._quick_deaths + 1, 16)
        while self.failed and not self._pool.closed and not self._pool.is_wanted():
            self._bell.acquire(timeout=_LOOK_S)


def exit_status(pidfd: int) -> int | None:
    """Wait for a child's end: gives its exit status, negative = the signal; None = other code has taken it."""
    try:
        end = posix.waitid(posix.P_PIDFD, pidfd, posix.WEXITED)
    except ChildProcessError:
        return None
    if end is None:
        return None
    return end.si_status if end.si_code == posix.CLD_EXITED else -end.si_status


def readable(fd: int, seconds: float) -> bool:
    """Wait for a descriptor, at most so long."""
    waiting = poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _died(worker: Worker, order: Order, code: int | None, last_line: str, fault: BaseException | None) -> WorkerDied:
    attempted, ended, hint = f"run {order.name} {worker.where}", "", ""
    if fault is not None:
        ended = f"was ended, since this process could not go on with it ({type(fault).__name__}: {fault})"
        hint = "look at the limits of this process: open files, memory"
    error = WorkerDied(attempted, pid=worker.pid, code=code, last_line=last_line, ended=ended, hint=hint)
    error.__cause__ = fault
    return error
