"""Orders in green threads of gevent: the pool, the owner of the channel and the orders are greenlets of one thread.

Both time limits are exceptions in the order's greenlet, at whatever it waits for. A greenlet that computes and never
yields stops all the others, the broker's heartbeat and every time limit with them: `LoopWatch` sees that from a thread
of the operating system.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from celery.exceptions import SoftTimeLimitExceeded

from greenlane.errors import HostError
from greenlane.threads.fork_warning import mark_thread
from greenlane.threads.unpatched import get_ident, sleep, start_new_thread, threads_are_green
from greenlane_work.order import Run
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.jobs import RecordedJobs
from greenlane_work.worker.owner import Call, Owner, do_all, nothing
from greenlane_work.worker.pool import Pool
from greenlane_work.worker.runs import HardTimeLimitExceeded, Runner, Runs, Serve

__all__ = ["GreenOwner", "GreenPool", "GreenRunner", "LoopWatch"]

#: The store's thread asks for the interpreter a dozen times a commit, and at CPython's 5 ms each of them would wait
#: until an order's burst of computing is over. Only it and the hub's thread take turns here, so the turns cost little.
_GREEN_SWITCH_S: Final = 0.0005
#: Between two looks, and between two signs of the loop.
_LOOK_S: Final = 0.25
#: A loop that does not turn for this long is worth a word. Arbitrary: a third of the usual heartbeat.
_STUCK_S: Final = 3.0
_FRAMES: Final = 12


class _GreenTimer:
    """Celery's own timer for gevent, imported when Celery asks the class for it."""

    def __get__(self, _pool: object, _kind: object = None) -> Any:
        from celery.concurrency.gevent import Timer

        return Timer


class GreenPool(Pool):
    """Orders in greenlets. gevent must have patched the process before anything else was imported."""

    is_green = True
    task_join_will_block = False

    Timer = _GreenTimer()

    def on_start(self) -> None:
        """Watch that the loop turns."""
        super().on_start()
        sys.setswitchinterval(_GREEN_SWITCH_S)
        self._watch = LoopWatch(Runs.serve.__code__)

    def on_stop(self) -> None:
        """See Pool."""
        super().on_stop()
        self._watch.stop()

    on_terminate = on_stop

    @staticmethod
    def spawn_n(function: Callable[..., object], *arguments: Any) -> Any:
        """Celery's remote control has a greenlet of its own."""
        import gevent

        return gevent.spawn(function, *arguments)

    def _owner(self) -> Owner:
        return GreenOwner()

    def _runner(self, serve: Serve) -> Runner:
        return GreenRunner(serve)

    def _jobs(self, settings: WorkSettings) -> RecordedJobs:
        return RecordedJobs(settings)  # greenlets take turns on one thread anyway

    def _check_threads(self) -> None:
        if not threads_are_green():
            raise HostError(
                "start the worker",
                name="pool",
                value="greenlane_work.celery:GreenPool",
                rule="a process whose modules gevent has patched before anything else",
                hint="greenlane celery --green APP does it; or gevent.monkey.patch_all() on top of the app's module",
            )


class GreenOwner:
    """One greenlet of its own, so that what it says to the broker is never cut off by an order's time limit."""

    def __init__(self) -> None:
        import gevent
        from gevent.event import Event

        self._gevent: Any = gevent
        self._thread = get_ident()
        self._posted: deque[Call] = deque()
        self._behind: list[Call] = []
        self.together: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
        self.after: Call = nothing
        self._work = Event()
        self._turned = Event()
        self._watcher = gevent.get_hub().loop.async_()
        self._watcher.start(self._work.set)
        self._timer: Any = None
        gevent.spawn(self._run)

    def post(self, call: Call) -> None:
        """See Owner."""
        self._posted.append(call)
        if get_ident() == self._thread:
            self._work.set()
        else:
            self._watcher.send()

    def post_behind(self, call: Call) -> None:
        """See Owner."""
        self._behind.append(call)
        self.wake()

    def wake(self) -> None:
        """See Owner."""
        self._watcher.send()

    def ring(self, at_ns: int, call: Call) -> None:
        """See Owner."""
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
        left_s = max(0.0, (at_ns - time.monotonic_ns()) / 1e9)
        self._timer = self._gevent.get_hub().loop.timer(left_s)
        self._timer.start(self.post, call)

    def wait(self, seconds: float) -> None:
        """See Owner."""
        self._turned.wait(seconds)
        self._turned.clear()

    def _run(self) -> None:
        while True:
            self._work.wait()
            self._work.clear()
            with self.together():
                do_all(self._posted, self.after)
            behind, self._behind = self._behind, []
            for call in behind:
                self.post(call)
            self._turned.set()


class GreenRunner:
    """A greenlet an order."""

    def __init__(self, serve: Serve) -> None:
        import gevent

        self._gevent: Any = gevent
        self._serve = serve
        self._left: set[Run] = set()

    def run(self, run: Run) -> None:
        """See Runner."""
        run.runner = self._gevent.spawn(self._run, run)

    def soften(self, run: Run) -> None:
        """See Runner."""
        if run.runner is not None:
            run.runner.kill(SoftTimeLimitExceeded(), block=False)

    def abandon(self, run: Run) -> None:
        """See Runner."""
        self._left.add(run)
        if run.runner is not None:
            run.runner.kill(HardTimeLimitExceeded(), block=False)

    def abandoned(self) -> int:
        """See Runner."""
        return len(self._left)

    def close(self) -> None:
        """Nothing is idle."""

    def _run(self, run: Run) -> None:
        try:
            self._serve(run)
        except (SoftTimeLimitExceeded, HardTimeLimitExceeded):
            pass
        self._left.discard(run)


class LoopWatch:
    """Says once where a loop stands that does not turn, and raises an order's soft limit when it has passed.

    Made on the thread of the loop, which it then watches to the process's end.

    Args:
        serving: the code that makes a run: its local variable `run` says which.
    """

    def __init__(self, serving: CodeType) -> None:
        import gevent

        self._serving = serving
        self._thread = get_ident()
        self._turned = time.monotonic()
        self._stopped = False
        self._timer: Any = gevent.get_hub().loop.timer(_LOOK_S, _LOOK_S)
        self._timer.start(self._turn)
        start_new_thread(self._watch, ())

    def stop(self) -> None:
        """Stop looking."""
        self._stopped = True
        self._timer.stop()

    def _turn(self) -> None:
        self._turned = time.monotonic()

    def _watch(self) -> None:
        mark_thread()
        told = stopped = 0.0
        while not self._stopped:
            sleep(_LOOK_S)
            turned = self._turned
            stuck_s = time.monotonic() - turned
            if stuck_s < 2 * _LOOK_S:
                continue
            frame = sys._current_frames().get(self._thread)
            run = self._run(frame)
            if run is not None and run.due_ns and time.monotonic_ns() > run.due_ns and stopped != turned:
                stopped = turned
                run.late = run.late or "soft time limit"
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(SoftTimeLimitExceeded)
                )
            if stuck_s >= _STUCK_S and told != turned:
                told = turned
                _tell(frame, run, stuck_s)

    def _run(self, frame: FrameType | None) -> Run | None:
        while frame is not None:
            if frame.f_code is self._serving:
                run = frame.f_locals.get("run")
                return run if isinstance(run, Run) else None
            frame = frame.f_back
        return None


def _tell(frame: FrameType | None, run: Run | None, stuck_s: float) -> None:
    # Not by `logging`: its locks are green ones.
    who = "something"
    if run is not None:
        who = f"order {run.order.id} at {run.order.key!r} ({run.order.name})"
    stack = "".join(traceback.format_stack(frame, _FRAMES)) if frame is not None else ""
    text = f"greenlane celery: {who} has not yielded for {stuck_s:.1f} s: no other order runs meanwhile\n{stack}"
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))
