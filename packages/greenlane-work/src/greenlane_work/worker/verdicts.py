"""How an order's run ended: from what Celery's tracer gives to an outcome, and to what it says of the upstream."""

from __future__ import annotations

import dataclasses
from typing import Any

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.exceptions import Ignore, Reject, Retry, TimeLimitExceeded

from greenlane_work.limits import CallOutcome
from greenlane_work.order import Order, Run
from greenlane_work.settings import WorkSettings
from greenlane_work.worker import lifecycle as life
from greenlane_work.worker.adapter import away
from greenlane_work.worker.execution import Execution
from greenlane_work.worker.outcomes import Again, Dead, expected, outcome_of
from greenlane_work.worker.retries import Retrying
from greenlane_work.worker.runs import UNTRACED, Result

__all__ = ["Verdicts", "revocation", "stopped"]


class Verdicts:
    """Asked by the owner of the channel."""

    def __init__(self, settings: WorkSettings, execution: Execution, retrying: Retrying) -> None:
        self._settings = settings
        self._execution = execution
        self._retrying = retrying

    def ended(self, run: Run, result: Result, *, logged: bool = False) -> life.RunEnd:
        """A run has ended by itself. `logged`: its error is in the log."""
        failed, value, runtime = result
        run.raised = None  # it holds the run's frames
        if not failed:
            return life.RunEnd(life.Success(value, runtime), CallOutcome.OK)
        error: Any = value.exception if isinstance(value, ExceptionInfo) else value
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        call = _call(run, error)
        if run.done is not None:
            run.order.deadline_at = run.order.expires_at = 0.0  # they are for its call, which is over
        untraced = runtime == UNTRACED
        # Celery's tracer logs what it sees of a failure, and to Celery a rejection is no error.
        logged = (logged or not untraced) and not isinstance(error, Reject)
        trace = str(getattr(value, "traceback", ""))
        return life.RunEnd(self._outcome(run, error, trace, untraced or run.failure_written is False, logged), call)

    def given_up(self, run: Run, reason: str) -> life.RunEnd:
        """One was given up at its hard limit."""
        order, most = run.order, self._settings.task_attempts
        raised = run.raised  # asked first: its run sets it after what the store is to be told
        if self._execution.ledger is not None:
            self._execution.ledger.tell(run, lambda _error: None)  # its run may be ended before it does
        if raised is None:
            self._execution.in_doubt(run, reason)
        if run.retried or run.done is not None or raised is not None:
            # The call is over: the store, the broker or the result backend is waited for.
            return self.ended(run, (1, raised or TimeLimitExceeded(reason), UNTRACED), logged=True)
        at_ns = self._retrying.again_ns(order, most)
        outcome: life.Outcome
        if at_ns is None:
            burial = life.Burial(self._spent(order, most), reason, TimeLimitExceeded(reason), logged=True)
            outcome = life.Death(burial, ("unknown", reason))
        else:
            outcome = life.Loss() if order.delivery.stale else life.Retry(at_ns, outcome="unknown", why=reason)
        return life.RunEnd(outcome, CallOutcome.TIMED_OUT)

    def _outcome(self, run: Run, error: Any, trace: str, unwritten: bool, logged: bool) -> life.Outcome:
        order = run.order
        if order.request._already_revoked and run.done is None:
            return revocation(order)
        if isinstance(error, Again):
            if order.delivery.stale and run.done is None:
                return life.Loss()
            return life.Retry(error.at_ns, error.counted, "unknown" if run.late else "failed", error.why)
        if isinstance(error, Retry) or run.retried:
            return life.OwnRetry(repr(error.exc if isinstance(error, Retry) else error), trace)
        if run.done is not None and not isinstance(error, (Ignore, Reject)):
            followed = self._followed(run, error)
            if followed is not None:
                return followed
        if _is_answer(order, error):
            told = unwritten and not isinstance(error, Ignore)
            return life.Answer(error if told else None, repr(error), trace)
        if isinstance(error, Reject) and error.requeue:
            # At once, as with Celery; one that goes on rejecting waits, or it would be all that a worker does.
            return life.Removal("the task rejected it, to be queued again", at_once=order.returns == 0)
        written = not unwritten and not isinstance(error, Reject)
        burial = life.Burial(*self._death(order, error), None if written else error, logged)
        return life.Death(burial, ("failed", self._execution.said(error)), repr(error), trace)

    def _followed(self, run: Run, error: BaseException) -> life.Retry | None:
        """Let what follows the task be tried again: it had its effect, and is not called again for that."""
        order = run.order
        assert run.done is not None
        waits = isinstance(error, TimeLimitExceeded) or away(order.request.task.app, error)
        order.attempts += not waits
        run.done = dataclasses.replace(run.done, writings=run.done.writings + 1)
        most = 0 if waits else self._settings.task_attempts
        at_ns = self._retrying.again_ns(order, most, writings=run.done.writings)
        why = f"what follows it failed: {self._execution.said(error)}"
        return None if at_ns is None else life.Retry(at_ns, outcome="done", why=why)

    def _death(self, order: Order, error: BaseException) -> tuple[str, str]:
        """A word for why, and a sentence."""
        if isinstance(error, Reject):
            if isinstance(error.reason, BaseException):
                return "rejected", self._execution.said(error.reason)
            said = str(error.reason or "")[: self._settings.task_reason_characters]
            return "rejected", said or "the task rejected it"
        if isinstance(error, Dead):
            return error.reason, str(error)
        attempts = self._retrying.attempts_of(order, error)
        return ("failed" if attempts == 1 else self._spent(order, attempts)), self._execution.said(error)

    def _spent(self, order: Order, attempts: int) -> str:
        """What was spent that there is no further attempt: the deadline too, where the next one would be past it."""
        if order.deadline_at and self._retrying.attempts(order) < attempts:
            return "deadline"
        return "attempts"


def stopped(order: Order, execution: Execution) -> life.Revocation | life.Burial | None:
    """Say why an order is not to begin: it was revoked, it has expired, or it does not say what Celery asks.

    One that is done begins once more only to be written down.
    """
    if order.done is not None:
        return None
    try:
        return revocation(order) if order.request.revoked() else None
    except Exception as error:  # Celery looks at headers here that are no one's word but the publisher's
        return life.Burial("malformed", f"it cannot be read: {execution.said(error)}", error)


def revocation(order: Order) -> life.Revocation:
    """Say that it was revoked, or has expired; Celery has said so already, in an event."""
    request = order.request
    return life.Revocation(
        bool(getattr(request, "greenlane_stopped", None) or getattr(request, "greenlane_revoked", ""))
    )


def _is_answer(order: Order, error: BaseException) -> bool:
    return isinstance(error, (Ignore, *expected(order.request.task)))


def _call(run: Run, error: BaseException) -> CallOutcome:
    """What a failed run says of its upstream."""
    if run.done is not None:
        return CallOutcome.OK
    if isinstance(error, Reject | Dead) or (isinstance(error, Again) and not error.counted):
        return CallOutcome.CANCELLED
    if _is_answer(run.order, error):
        return CallOutcome.OK
    return CallOutcome.TIMED_OUT if run.late else outcome_of(error)
