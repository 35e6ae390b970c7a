"""The runs of orders: begun on a thread or greenlet, held to their time limits, and told of when they end.

Everything here runs on the owner of the channel but `serve`, which runs an order where orders run.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from billiard.einfo import ExceptionInfo
from celery.app.trace import fast_trace_task, trace_task_ret
from celery.exceptions import SoftTimeLimitExceeded
from celery.utils.saferepr import saferepr

from greenlane import deadline
from greenlane._native import Start
from greenlane_work.keys import provider_of
from greenlane_work.order import Order, Stage, run_generation, running
from greenlane_work.settings import WorkSettings
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

#: Runs an order, of which this is the run with that number: `Runs.serve`.
Serve = Callable[[Order, int], None]


class HardTimeLimitExceeded(BaseException):
    """Ends the greenlet of an order that was given up at its hard limit. Not an Exception: tasks catch those."""


class Runner(Protocol):
    """Runs orders, each apart from the others."""

    def run(self, order: Order) -> None:
        """Start it; returns at once."""

    def soften(self, order: Order) -> None:
        """Raise SoftTimeLimitExceeded in it, or say so in the order where it has not begun."""

    def abandon(self, order: Order, generation: int) -> None:
        """Free the place of this run; the order was given up."""

    def abandoned(self) -> int:
        """Give how many that were given up have not ended yet."""

    def close(self) -> None:
        """Stop running."""


class Runs:
    """See the module.

    Args:
        tell: tells the store of the end, and calls back from any thread; False = there is nothing to tell.
        ended: a run ended by itself, with this result; its order is still RUNNING.
        given_up: one did not, for this reason; whether its call went through is unknown.
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
        tell: Callable[[Order, Callable[[BaseException | None], object]], bool],
        ended: Callable[[Order, Result], None],
        given_up: Callable[[Order, str], None],
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._alarm = alarm
        self._totals = totals
        self._jobs = jobs
        self._tell = tell
        self._ended = ended
        self._given_up = given_up
        self.runner = make_runner(self.serve)

    def begin(self, order: Order, start: Start, left_ns: int = 0) -> None:
        """Let it run; returns at once. `left_ns`: when it left the parked ones, monotonic; 0 = now."""
        self._totals.started += 1
        order.began_s = round(time.time(), 3)
        order.begun_ns = time.monotonic_ns()
        # Since it left the parked ones the store was asked.
        store_ns = order.begun_ns - left_ns if left_ns else 0
        passed_ns = order.passed.breaker_ns if order.passed is not None else 0
        order.held = (
            ("breaker", start.breaker_ns + passed_ns), ("limit", start.limit_ns), ("slots", start.slots_ns),
            *((("store", store_ns),) if store_ns else ()),
        )  # fmt: skip
        order.generation += 1
        levels = ((order.key, start), (f"{provider_of(order.key)}/", order.passed))
        order.probes = [name for name, level in levels if level is not None and level.probe]
        order.late, order.late_unbegun = "", False
        order.over, order.retried = order.name == _CHORD_UNLOCK, False
        order.result_written, order.failure_written, order.raised = False, None, None
        self._set_limits(order, start)
        order.request.on_accepted(order.number, time.monotonic())
        self.runner.run(order)

    def serve(self, order: Order, generation: int) -> None:
        """Run an order; called where orders run. `generation`: which of its runs this is."""
        if order.generation != generation:
            return  # given up before it began
        result: Any = None
        while True:
            # The soft limit may be raised anywhere in here, once: what ended has to be told all the same.
            try:
                result = result or self._traced(order, generation)
                self._end(order, generation, result)
                return
            except SoftTimeLimitExceeded:
                result = result or (1, ExceptionInfo(), UNTRACED)

    def _end(self, order: Order, generation: int, result: Result) -> None:
        """Let the owner know of it, once the store does."""
        if order.generation != generation:
            return  # given up: what there is to tell is the next run's

        def then(error: BaseException | None) -> None:
            said = result if error is None else (1, error, UNTRACED)
            self._owner.post(functools.partial(self._finished, order, generation, said))

        if not self._tell(order, then):
            then(None)

    def _traced(self, order: Order, number: int) -> Result:
        request = order.request
        token = running.set(order)
        run_generation.set(number)
        failed: Any = 1
        # What the thread's order before this one left is overwritten, not put back: a limit may strike anywhere.
        deadline.enter(None, order.due_ns)
        opened = self._jobs.open(order)
        try:
            trace = fast_trace_task if request.app.use_fast_trace_task else trace_task_ret
            failed, value, seconds = trace(
                request.type,
                request.id,
                request.request_dict,
                request.body,
                request.content_type,
                request.content_encoding,
                app=request.app,
            )
        except HardTimeLimitExceeded:
            raise  # this run was abandoned
        except BaseException:
            return 1, ExceptionInfo(), UNTRACED
        finally:
            running.reset(token)
            self._jobs.close(opened, bool(failed))
        return failed, value, seconds

    def _finished(self, order: Order, generation: int, result: Result) -> None:
        if order.generation != generation or order.stage is not Stage.RUNNING:
            return  # it was given up
        _cancel(order)
        self._ended(order, result)

    # --- limits -----------------------------------------------------------------------------------------------------

    def _set_limits(self, order: Order, start: Start) -> None:
        request, settings = order.request, self._settings
        remaining_s = order.remaining_s()
        hard, soft = request.time_limits or (None, None)
        soft = soft or request.task.soft_time_limit or settings.task_soft_limit_s or None
        hard = hard or request.task.time_limit or settings.task_hard_limit_s or None
        # An attempt has what is left of its order's time, and a probe no more than a probe has.
        bounds = [each.time_limit_ns / 1e9 for each in (start, order.passed) if each is not None and each.time_limit_ns]
        bounds += [max(remaining_s, _LEAST_S)] if remaining_s is not None else []
        if bounds:
            soft = min(bounds + ([soft] if soft else []))
            hard = min([soft + settings.task_grace_s] + ([hard] if hard else []))
        elif soft and not hard:
            hard = soft + settings.task_grace_s
        order.due_ns = time.monotonic_ns() + int(soft * 1e9) if soft else 0
        for seconds, meets in ((soft, self.soften), (hard, self._give_up)):
            if seconds:
                at_ns = time.monotonic_ns() + int(seconds * 1e9)
                call = functools.partial(meets, order, order.generation, seconds)
                order.timers.append(self._alarm.at(at_ns, call))

    def soften(self, order: Order, generation: int, seconds: float) -> None:
        """The soft limit: an exception in the run, at its next chance. A call that is over has kept it."""
        if order.generation == generation and order.stage is Stage.RUNNING and not order.over:
            self._totals.soft_limits += 1
            order.late = f"soft time limit of {seconds:g} s"
            _log.warning("%s: order %s at %r is stopped at its next chance", order.late, order.id, order.key)
            self.runner.soften(order)

    def _give_up(self, order: Order, generation: int, seconds: float) -> None:
        """The hard limit: its slot is free; whether the call went through is unknown, unless its result is written."""
        if order.generation != generation or order.stage is not Stage.RUNNING:
            return
        self._totals.hard_limits += 1
        reason = f"hard time limit of {seconds:g} s"
        hook_hangs = _hook_hangs(order)
        then = "it is done" if hook_hangs else "it will be tried again"
        _log.error("%s: order %s at %r is given up; %s", reason, order.id, order.key, then)
        _cancel(order)
        order.generation += 1
        if order.runner is not None:  # else it has ended, and waits for the store
            self.runner.abandon(order, generation)
        if hook_hangs:
            shown = saferepr(order.kept[0] if order.kept else None)
            self._end(order, order.generation, (0, shown, (time.monotonic_ns() - order.begun_ns) / 1e9))
        else:
            self._given_up(order, reason)


def _hook_hangs(order: Order) -> bool:
    """Its result is written, and its run has not ended: the store has not been told yet."""
    waits_for_store = order.untold is None and order.kept is not None and order.kept[1]
    return order.result_written and not waits_for_store


def _cancel(order: Order) -> None:
    for entry in order.timers:
        entry.cancel()
    order.timers = []
