"""The runs of orders: begun on a thread or greenlet, held to their time limits, and reported when they end.

Everything here runs on the owner of the channel but `serve`, which runs an order where orders run.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from billiard.einfo import ExceptionInfo
from celery.exceptions import SoftTimeLimitExceeded
from celery.utils.saferepr import saferepr

from greenlane import deadline
from greenlane._native import Start
from greenlane_work.keys import provider_of
from greenlane_work.order import Run, running
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.adapter import trace
from greenlane_work.worker.jobs import RecordedJobs
from greenlane_work.worker.owner import Alarm, Owner
from greenlane_work.worker.totals import Totals

__all__ = ["UNTRACED", "HardTimeLimitExceeded", "Result", "Runner", "Runs", "Serve"]

_log = logging.getLogger("greenlane.work")

#: An attempt that begins at its very deadline has this long; 0 would be no limit.
_LEAST_S: Final = 0.001

#: Celery's own task, which publishes a chord's body where the result backend cannot count: all that it does follows it.
_CHORD_UNLOCK: Final = "celery.chord_unlock"

#: What Celery's tracer gives: (failed, value or error, seconds).
Result = tuple[Any, Any, Any]
#: In place of the seconds: the run ended past Celery's tracer, which has written no result.
UNTRACED: Final = -1.0

#: Makes a run: `Runs.serve`.
Serve = Callable[[Run], None]
#: Gets what has become of a run, on the owner: what Celery's tracer gave, or why it was given up.
Report = Callable[[Run, "Result | str"], object]


class HardTimeLimitExceeded(BaseException):
    """Ends the greenlet of an order that was given up at its hard limit. Not an Exception: tasks catch those."""


class Runner(Protocol):
    """Makes runs, each apart from the others."""

    def run(self, run: Run) -> None:
        """Start it; returns at once."""

    def soften(self, run: Run) -> None:
        """Raise SoftTimeLimitExceeded in it, or say so in the run where it has not begun."""

    def abandon(self, run: Run) -> None:
        """Free its place: it was given up."""

    def abandoned(self) -> int:
        """Give how many that were given up have not ended yet."""

    def close(self) -> None:
        """Stop running."""


class Runs:
    """See the module.

    Args:
        tell: tells the store of the end, and calls back from any thread; False = there is nothing. None = no store.
        report: of a run that was given up it is unknown whether its call went through.
    """

    def __init__(
        self,
        settings: WorkSettings,
        owner: Owner,
        alarm: Alarm,
        totals: Totals,
        *,
        make_runner: Callable[[Serve], Runner],
        jobs: RecordedJobs,
        tell: Callable[[Run, Callable[[BaseException | None], object]], bool] | None,
        report: Report,
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._alarm = alarm
        self._totals = totals
        self._jobs = jobs
        self._tell = tell
        self._report = report
        self.runner = make_runner(self.serve)

    def begin(self, run: Run, start: Start, passed: Start | None, left_ns: int = 0) -> None:
        """Let it run; returns at once.

        Args:
            run: of an order that does not run.
            start: how its key let it through, and how its provider did: `passed`.
            left_ns: when it left the parked ones, monotonic; 0 = now.
        """
        order = run.order
        self._totals.started += 1
        order.runs += 1
        order.began_s = round(time.time(), 3)
        run.begun_ns = time.monotonic_ns()
        # Since it left the parked ones the store was asked.
        store_ns = run.begun_ns - left_ns if left_ns else 0
        passed_ns = passed.breaker_ns if passed is not None else 0
        run.held = (
            ("breaker", start.breaker_ns + passed_ns), ("limit", start.limit_ns), ("slots", start.slots_ns),
            *((("store", store_ns),) if store_ns else ()),
        )  # fmt: skip
        if start.probe or (passed is not None and passed.probe):
            levels = ((order.key, start), (f"{provider_of(order.key)}/", passed))
            run.probes = tuple(name for name, level in levels if level is not None and level.probe)
        run.over = order.name == _CHORD_UNLOCK
        self._set_limits(run, start, passed)
        order.request.on_accepted(order.number, time.monotonic())
        self.runner.run(run)

    def serve(self, run: Run) -> None:
        """Make a run; called where orders run."""
        if run.abandoned:
            return  # given up before it began
        result: Any = None
        while True:
            # The soft limit may be raised anywhere in here, once: what ended has to be told all the same.
            try:
                result = result or self._traced(run)
                self._end(run, result)
                return
            except SoftTimeLimitExceeded:
                result = result or (1, ExceptionInfo(), UNTRACED)

    def _end(self, run: Run, result: Result) -> None:
        if not run.abandoned:  # else what there is to tell is the next run's
            self._told(run, result, self._finished)

    def _told(self, run: Run, result: Result, then: Report) -> None:
        """Let the owner know of it, once the store does."""

        def told(error: BaseException | None) -> None:
            known = result if error is None else (1, error, UNTRACED)
            self._owner.post(functools.partial(then, run, known))

        if self._tell is None or not self._tell(run, told):
            told(None)

    def _traced(self, run: Run) -> Result:
        request = run.order.request
        token = running.set(run)
        failed: Any = 1
        # What the thread's order before this one left is overwritten, not put back: a limit may strike anywhere.
        deadline.enter(None, run.due_ns)
        opened = self._jobs.open(run)
        try:
            failed, value, seconds = trace(request)
        except HardTimeLimitExceeded:
            raise  # this run was abandoned
        except BaseException:
            return 1, ExceptionInfo(), UNTRACED
        finally:
            running.reset(token)
            self._jobs.close(opened, bool(failed))
        return failed, value, seconds

    def _finished(self, run: Run, result: Result | str) -> None:
        if not run.abandoned:
            _cancel(run)
            self._report(run, result)

    # --- limits -----------------------------------------------------------------------------------------------------

    def _set_limits(self, run: Run, start: Start, passed: Start | None) -> None:
        request, settings = run.order.request, self._settings
        remaining_s = run.order.remaining_s()
        hard, soft = request.time_limits or (None, None)
        soft = soft or request.task.soft_time_limit or settings.task_soft_limit_s or None
        hard = hard or request.task.time_limit or settings.task_hard_limit_s or None
        # An attempt has what is left of its order's time, and a probe no more than a probe has.
        bounds = [each.time_limit_ns / 1e9 for each in (start, passed) if each is not None and each.time_limit_ns]
        bounds += [max(remaining_s, _LEAST_S)] if remaining_s is not None else []
        if bounds:
            soft = min(bounds + ([soft] if soft else []))
            hard = min([soft + settings.task_grace_s] + ([hard] if hard else []))
        elif soft and not hard:
            hard = soft + settings.task_grace_s
        run.due_ns = time.monotonic_ns() + int(soft * 1e9) if soft else 0
        for seconds, meets in ((soft, self.soften), (hard, self._give_up)):
            if seconds:
                at_ns = time.monotonic_ns() + int(seconds * 1e9)
                run.timers.append(self._alarm.at(at_ns, functools.partial(meets, run, seconds)))

    def soften(self, run: Run, seconds: float) -> None:
        """The soft limit: an exception in the run, at its next chance. A call that is over has kept it."""
        if run.order.run is run and not run.over:
            self._totals.soft_limits += 1
            run.late = f"soft time limit of {seconds:g} s"
            _log.warning("%s: order %s at %r is stopped at its next chance", run.late, run.order.id, run.order.key)
            self.runner.soften(run)

    def _give_up(self, run: Run, seconds: float) -> None:
        """The hard limit: its slot is free; whether the call went through is unknown, unless its result is written."""
        order = run.order
        if order.run is not run:
            return
        self._totals.hard_limits += 1
        reason = f"hard time limit of {seconds:g} s"
        hook_hangs = _hook_hangs(run)
        then = "it is done" if hook_hangs else "it will be tried again"
        _log.error("%s: order %s at %r is given up; %s", reason, order.id, order.key, then)
        _cancel(run)
        run.abandoned = True
        if run.runner is not None:  # else it has ended, and waits for the store
            self.runner.abandon(run)
        if hook_hangs:
            shown = saferepr(run.done.result if run.done else None)
            self._told(run, (0, shown, (time.monotonic_ns() - run.begun_ns) / 1e9), self._report)
        else:
            self._report(run, reason)


def _hook_hangs(run: Run) -> bool:
    """Its result is written, and its run has not ended: the store has not been told yet."""
    waits_for_store = run.untold is None and run.done is not None and run.done.token
    return run.result_written and not waits_for_store


def _cancel(run: Run) -> None:
    for entry in run.timers:
        entry.cancel()
    run.timers = []
