"""A task's own function, as the worker runs it: the store is asked before the call, failures are tried again.

Celery's tracer runs the function as it always does, with its signals, states and callbacks; what stands here is wrapped
around the function alone. An order that was done before gives its kept result again, so that whatever follows it in a
chain is published even if the worker died between the two.

A call has three outcomes: done; failed, when it is certain that nothing reached the other side; and
unknown, everything else. An unknown one is asked about (`@app.task(ask=…)`) before it is sent again.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from greenlane_work.order import Done, Order, Run, running
from greenlane_work.settings import WorkSettings
from greenlane_work.worker import adapter
from greenlane_work.worker.followers import named
from greenlane_work.worker.outcomes import Again, Dead, expected, nothing_sent, waiting
from greenlane_work.worker.retries import Retrying
from greenlane_work.worker.totals import Totals

__all__ = ["Execution"]

_log = logging.getLogger("greenlane.work")

#: A task's attribute: asked for the outcome of an attempt with an unknown end.
ASK: Final = "ask"
_WRAPPED: Final = "__greenlane_original__"
#: A soft limit that came before its run had a thread: the order waits this long. Arbitrary.
_PAUSE_S: Final = 1.0


class Execution:
    """The wrapping of tasks. `store` None: nothing is remembered beyond this process."""

    def __init__(
        self,
        store: Any,
        retrying: Retrying,
        settings: WorkSettings,
        refused: Callable[[Order, BaseException], object],
        totals: Totals,
    ) -> None:
        """Args: `refused` gets each failure: its upstream may have said when to come again."""
        self._refused = refused
        self._retrying = retrying
        self._most = settings.task_attempts
        self._characters = settings.task_reason_characters
        self._totals = totals
        self.ledger = None
        if store is not None:
            from greenlane_work.worker.ledger import Ledger  # it loads the store

            self.ledger = Ledger(store)

    def said(self, error: BaseException) -> str:
        """What is written down of an exception."""
        return repr(error)[: self._characters] if self._characters else type(error).__name__

    def ask(self, run: Run, told: Callable[[], object]) -> bool:
        """Ask the store for a run that is about to begin; see `Ledger.ask`. False: nothing is to be asked."""
        if self.ledger is None or run.done is not None or not hasattr(run.order.request.task.run, _WRAPPED):
            return False
        self.ledger.ask(run, told)
        return True

    def in_doubt(self, run: Run, reason: str) -> None:
        """Report, without waiting, that the end of the running attempt is unknown."""
        run.order.in_doubt = True
        if self.ledger is not None:
            self.ledger.in_doubt(run, reason)

    def wrap(self, task: Any) -> None:
        """Let this task's function run as an order when it is one. Idempotent."""
        original = task.run
        if getattr(original, _WRAPPED, None) is not None:
            return

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            run, request = running.get(), task.request
            if run is None or request.called_directly or request.is_eager or request.id != run.order.request.id:
                return original(*args, **kwargs)
            _unless_given_up(run)  # while it waited for the result backend
            run.over = False
            try:
                result = self._run(run, task, original, args, kwargs)
            except BaseException as error:
                _unless_given_up(run)
                run.raised, run.over = error, True
                raise
            _unless_given_up(run)
            run.over = True
            return result

        setattr(call, _WRAPPED, original)
        task.run = call
        adapter.wait_for_the_broker(task)
        adapter.followers_wait(task.app)
        adapter.chords_fire(task.app)
        adapter.bear_its_absence(type(task.backend))

    def _run(self, run: Run, task: Any, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        ledger = self.ledger
        if ledger is not None:
            task.request.callbacks = named(task.request.callbacks or (), task.request.id)
        if run.done is not None:
            self._totals.calls_saved += 1
            if run.done.followed:
                task.request.callbacks = task.request.chain = None
            if ledger is not None:
                ledger.keep(run, task, run.done.result)
            return run.done.result
        if run.late_unbegun:
            raise waiting(_PAUSE_S, SoftTimeLimitExceeded())
        known, result = self._known(run, task, args, kwargs)
        if known:
            self._totals.calls_saved += 1
            run.done = Done(result)  # if what follows it cannot be published, only that is tried again
            return result
        _unless_given_up(run)  # while it waited for the store, or for the upstream's answer
        if ledger is not None:
            ledger.hold(run)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            self._failed(run, task, error)
            raise
        run.done = Done(result, run.token)
        if ledger is not None:
            ledger.keep(run, task, result)
        return result

    def _known(self, run: Run, task: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        """Count the attempt; (True, result) = it is done already, as the store or the upstream says."""
        order = run.order
        if self.ledger is None:
            order.attempts += 1
            return self._asked(run, task, args, kwargs) if order.in_doubt else (False, None)
        done, result, unknown = self.ledger.begin(run, task)
        if done:
            return True, result
        if self._retrying.attempts(order) > self._most:
            return self._given_up(run, task, args, kwargs, unknown=unknown)
        return self._asked(run, task, args, kwargs) if unknown else (False, None)

    def _given_up(self, run: Run, task: Any, args: Any, kwargs: Any, *, unknown: bool) -> tuple[bool, Any]:
        """No further call. The worker that died over the last one may have made it: ask the upstream.

        Raises:
            Dead: it has not been carried out, as far as can be known.
        """
        if unknown and inspect.getattr_static(task, ASK, None) is not None:
            known, result = self._asked(run, task, args, kwargs)
            if known:
                return True, result
            unknown = False
        assert self.ledger is not None
        self.ledger.give_up(run, unknown=unknown)
        told = "how the last one ended is unknown" if unknown else "the last one had no effect"
        raise Dead(f"begun {run.order.attempts - 1} times; {told}")

    def _asked(self, run: Run, task: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        """The end of the last attempt is unknown: ask the upstream or the store."""
        order, ask = run.order, inspect.getattr_static(task, ASK, None)
        if isinstance(ask, staticmethod):
            ask = ask.__func__
        if ask is None:
            self._totals.calls_repeated += 1
            if self.ledger is not None:
                order.note("repeated", "the last attempt's end is unknown, and the task has no `ask`")
            return False, None
        self._totals.calls_asked += 1
        try:
            result = ask(*args, **kwargs)
            _unless_given_up(run)
            if result is None:
                order.in_doubt = False
                if self.ledger is not None:
                    self.ledger.absent(run)
                return False, None
        except BaseException as error:
            _unless_given_up(run)
            _log.warning("the `ask` of %s failed for order %s: %r", task.name, order.id, error)
            self.in_doubt(run, f"asked: {self.said(error)}")
            self._again(order, task, error, self._most)
            raise
        if self.ledger is not None:
            self.ledger.done(run, task, result, run.token)
        return True, result

    def _failed(self, run: Run, task: Any, error: BaseException) -> None:
        """Say how it ended, and raise Again if it is to be tried again."""
        order = run.order
        self._refused(order, error)
        no_effect = isinstance(error, (Reject, *expected(task))) or nothing_sent(error)
        # Also where an attempt that was given up says so, when the next one has begun.
        order.in_doubt |= not no_effect
        if self.ledger is not None:
            answer = isinstance(error, Ignore)
            self.ledger.failed(run, answer=answer, no_effect=no_effect, reason=self.said(error))
        self._again(order, task, error, self._retrying.attempts_of(order, error))

    def _again(self, order: Order, task: Any, error: BaseException, attempts: int) -> None:
        # A task that calls sys.exit has failed; what else is no Exception ends a run on purpose.
        if not isinstance(error, Exception | SystemExit) or isinstance(
            error, (Ignore, Reject, Retry, Dead, *expected(task))
        ):
            return
        at_ns = self._retrying.again_ns(order, attempts)
        if at_ns is not None:
            raise Again(at_ns, error, why=self.said(error)) from error


def _unless_given_up(run: Run) -> None:
    """Raise Ignore in a run that was given up: Celery is to write nothing and publish nothing, the next run does."""
    if run.abandoned:
        raise Ignore
