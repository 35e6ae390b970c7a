"""A task's own function, as the worker runs it: the store is asked before the call, failures are tried again.

Celery's tracer runs the function as it always does, with its signals, states and callbacks; what stands here is wrapped
around the function alone. An order that was done before gives its kept result again, so that whatever follows it in a
chain is published even if the worker died between the two.

A call has three outcomes: done; failed, when it is certain that nothing reached the other side; and
unknown, everything else. An unknown one is asked about (`@app.task(ask=…)`) before it is sent again.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from greenlane_work.headers import tried_of
from greenlane_work.keys import store_key
from greenlane_work.order import Order
from greenlane_work.packing import packed, unpacked
from greenlane_work.run import Done, Run, running
from greenlane_work.settings import WorkSettings
from greenlane_work.worker import adapter
from greenlane_work.worker.followers import named
from greenlane_work.worker.outcomes import Again, Dead, expected, nothing_sent
from greenlane_work.worker.retries import Retrying

__all__ = ["CallCounts", "Execution"]

_log = logging.getLogger("greenlane.work")

#: A task's attribute: asked for the outcome of an attempt with an unknown end.
ASK: Final = "ask"
_WRAPPED: Final = "__greenlane_original__"
#: While the store cannot be asked the order waits this long. Arbitrary.
_STORE_PAUSE_S: Final = 1.0
#: While it runs elsewhere it is asked for after this long, doubled each time up to the second. Arbitrary.
_AGAIN_S: Final = 0.05
_AGAIN_MOST_S: Final = 5.0


class CallCounts:
    """What is counted of calls."""

    def __init__(self) -> None:
        # Begun although an earlier attempt may have reached the other side, which could not be asked.
        self.calls_repeated = 0
        # Not called: the store knew the result, or the other side was asked and had it.
        self.done_before = 0
        self.asked = 0
        self.store_waits = 0


class Execution:
    """The wrapping of tasks. `store` None: nothing is remembered beyond this process."""

    def __init__(
        self,
        store: Any,
        retrying: Retrying,
        settings: WorkSettings,
        refused: Callable[[Order, BaseException], object],
    ) -> None:
        """Args: `refused` gets each failure: its upstream may have said when to come again."""
        self._refused = refused
        self._store = store
        self._retrying = retrying
        self._most = settings.task_attempts
        self._characters = settings.task_reason_characters
        self.counts = CallCounts()

    def said(self, error: BaseException) -> str:
        """What is written down of an exception."""
        return repr(error)[: self._characters] if self._characters else type(error).__name__

    def ask(self, run: Run, told: Callable[[], object]) -> bool:
        """Ask the store for a run that is about to begin, without waiting, on the owner of the channel.

        So a thread is woken only when there is something for it to do. False: nothing is to be asked.

        Args:
            run: takes the answer, or has `untaken` called.
            told: called on the store's thread.
        """
        order = run.order
        if self._store is None or run.done is not None or not hasattr(order.request.task.run, _WRAPPED):
            return False
        from greenlane_work.store import Answer, Kind

        def answered(answer: Any) -> None:
            if isinstance(answer, Answer):
                run.token = answer.token
            run.answer = answer
            told()

        self._store.submit(Kind.BEGIN, _store_key(order), answered)
        return True

    def untaken(self, run: Run) -> None:
        """A run has ended, or did not begin, without a look at the store's answer: nothing was called."""
        answer, run.answer = run.answer, None
        if getattr(answer, "token", ""):
            self._submit(run, "FAILED", answer.token, reason="it was not called")

    def tell(self, run: Run, then: Callable[[BaseException | None], object]) -> bool:
        """Tell the store what a run has left to tell it, without waiting. False: there is nothing.

        Args:
            run: has ended.
            then: called on the store's thread when it is written down; None, or why the order has to come again.
        """
        untold, run.untold = run.untold, None
        if untold is None:
            return False
        from greenlane.errors import StoreError

        kind, what = untold

        def told(answer: Any) -> None:
            if isinstance(answer, StoreError):  # this process ends: the message stays unacknowledged
                then(self._wait(_STORE_PAUSE_S, answer))
                return
            if run.done is not None:
                run.done = dataclasses.replace(run.done, token="")
            then(None)

        self._store.submit(kind, _store_key(run.order), told, **what)
        return True

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
        order = run.order
        if self._store is not None:
            task.request.callbacks = named(task.request.callbacks or (), task.request.id)
        if run.done is not None:
            self.counts.done_before += 1
            if run.done.followed:
                task.request.callbacks = task.request.chain = None
            return self._kept(run, task, run.done.result, run.done.token)
        if run.late_unbegun:
            raise self._wait(_STORE_PAUSE_S, SoftTimeLimitExceeded())
        if self._store is None:
            order.attempts += 1
            known, result = self._asked(run, task, args, kwargs) if order.in_doubt else (False, None)
        else:
            known, result = self._begin(run, task, args, kwargs)
        if known:
            self.counts.done_before += 1
            run.done = Done(result)  # if what follows it cannot be published, only that is tried again
            return result
        _unless_given_up(run)  # while it waited for the store, or for the upstream's answer
        if self._store is not None:
            self._hold(run)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            self._failed(run, task, error)
            raise
        run.done = Done(result, run.token)
        return self._kept(run, task, result, run.token)

    def _kept(self, run: Run, task: Any, result: Any, token: str) -> Any:
        """Give the result of a call that ended well, once the store has it."""
        if self._store is None or not token:
            return result
        if run.abandoned or not _is_followed(task.request):
            # Nothing is published after it: the store is told beside the rest of the run, which ends when it knows.
            self._tell_at_the_end(run, "DONE", token, result=packed(result, pickled=_pickles(task)))
            return result
        try:
            self._done(run, task, result, token)
        except SoftTimeLimitExceeded as error:
            raise self._wait(_STORE_PAUSE_S, error) from error
        run.done = dataclasses.replace(run.done or Done(result), token="")
        return result

    def _tell_at_the_end(self, run: Run, kind: str, token: str, **what: object) -> None:
        """Let the store be told when the run has ended; now, by one that was given up: the next one may have begun."""
        from greenlane_work.store import Kind

        if run.abandoned:
            self._submit(run, kind, token, **what)
        else:
            run.untold = (Kind[kind], {**what, "token": token})

    def _submit(self, run: Run, kind: str, token: str, **what: object) -> None:
        """Tell the store, without waiting for it."""
        from greenlane_work.store import Kind

        self._store.submit(Kind[kind], _store_key(run.order), lambda _answer: None, **what, token=token)

    def _done(self, run: Run, task: Any, result: object, token: str) -> None:
        """Say that it has had its effect; this waits as long as the store is away."""
        from greenlane.errors import StoreError

        try:
            self._store.done(_store_key(run.order), packed(result, pickled=_pickles(task)), token=token)
        except StoreError as error:  # this process ends: the message stays unacknowledged, and the order in doubt
            raise self._wait(_STORE_PAUSE_S, error) from error

    def _hold(self, run: Run) -> None:
        """Raise Again when the lease ran out between begin and call: this process stood still, another may have it."""
        if not self._store.holds_since_begin(run.token):
            self.counts.store_waits += 1
            run.order.attempts -= 1
            self._tell_at_the_end(run, "FAILED", run.token, reason="not called: the lease had run out")
            raise self._wait(_AGAIN_S, None)

    def in_doubt(self, run: Run, reason: str) -> None:
        """Report, without waiting, that the end of the running attempt is unknown. For the owner of the channel."""
        run.order.in_doubt = True
        if run.token:
            self._submit(run, "UNKNOWN", run.token, reason=reason)

    def _begin(self, run: Run, task: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        """Ask the store; (True, result) = it is done already."""
        from greenlane.errors import StoreError
        from greenlane_work.store import State

        order = run.order
        try:
            begun = self._answer(run)
        except (StoreError, SoftTimeLimitExceeded) as error:  # nothing was called: no fault of task or upstream
            self.counts.store_waits += 1
            raise self._wait(_STORE_PAUSE_S, error) from error
        if begun.state is State.DONE:
            if not begun.result and _is_followed(task.request):
                raise Dead("it is done, and its result was not kept for what follows it", reason="result")
            return True, unpacked(begun.result, pickled=_pickles(task))
        if begun.state is State.RUNNING:
            self.counts.store_waits += 1
            # A lease is how long it may take to learn that its owner died; most often it is about to end well.
            order.waits += 1
            raise self._wait(min(begun.wait_s, _AGAIN_S * 2.0 ** min(order.waits, 10), _AGAIN_MOST_S), None)
        order.waits = 0
        run.token = begun.token
        order.attempts = max(order.attempts + 1, begun.attempt - order.earlier)
        if self._retrying.attempts(order) > self._most:
            return self._given_up(run, task, args, kwargs, unknown=begun.state is State.UNKNOWN)
        if begun.state is State.UNKNOWN:
            return self._asked(run, task, args, kwargs)
        return False, None

    def _answer(self, run: Run) -> Any:
        """What the store said before the run; one that nobody has asked for waits for it here."""
        answer, run.answer = run.answer, None
        if answer is None:
            return self._store.begin(_store_key(run.order))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _given_up(self, run: Run, task: Any, args: Any, kwargs: Any, *, unknown: bool) -> tuple[bool, Any]:
        """No further call. The worker that died over the last one may have made it: ask the upstream.

        Raises:
            Dead: it has not been carried out, as far as can be known.
        """
        order = run.order
        key, told = _store_key(order), "how the last one ended is unknown"
        if unknown and inspect.getattr_static(task, ASK, None) is not None:
            known, result = self._asked(run, task, args, kwargs)
            if known:
                return True, result
            unknown = False
        if not unknown:
            told = "the last one had no effect"
        order.history = tried_of(self._store.history(key)) or order.history
        (self._store.unknown if unknown else self._store.failed)(key, "given up", token=run.token)
        raise Dead(f"begun {order.attempts - 1} times; {told}")

    def _asked(self, run: Run, task: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        """The end of the last attempt is unknown: ask the upstream or the store."""
        order, ask = run.order, inspect.getattr_static(task, ASK, None)
        if isinstance(ask, staticmethod):
            ask = ask.__func__
        if ask is None:
            self.counts.calls_repeated += 1
            if self._store is not None:
                order.note("repeated", "the last attempt's end is unknown, and the task has no `ask`")
            return False, None
        self.counts.asked += 1
        try:
            result = ask(*args, **kwargs)
            _unless_given_up(run)
            if result is None:
                order.in_doubt = False
                if self._store is not None:
                    self._store.absent(_store_key(order), token=run.token)
                return False, None
        except BaseException as error:
            _unless_given_up(run)
            _log.warning("the `ask` of %s failed for order %s: %r", task.name, order.id, error)
            self.in_doubt(run, f"asked: {self.said(error)}")
            self._again(order, task, error, self._most)
            raise
        if self._store is not None:
            self._done(run, task, result, run.token)
        return True, result

    def _failed(self, run: Run, task: Any, error: BaseException) -> None:
        """Say how it ended, and raise Again if it is to be tried again."""
        order = run.order
        self._refused(order, error)
        no_effect = isinstance(error, (Reject, *expected(task))) or nothing_sent(error)
        # Also where an attempt that was given up says so, when the next one has begun.
        order.in_doubt |= not no_effect
        if self._store is not None:
            # When the run has ended: a soft limit does not end a wait for the store here, and the next attempt of
            # `self.retry` begins when Celery has written RETRY, or that could overwrite its result.
            if isinstance(error, Ignore):
                self._tell_at_the_end(run, "DONE", run.token, result=packed(None))
            else:
                self._tell_at_the_end(run, "FAILED" if no_effect else "UNKNOWN", run.token, reason=self.said(error))
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

    def _wait(self, seconds: float, error: BaseException | None) -> Again:
        why = "the order is being done elsewhere" if error is None else self.said(error)
        return Again(time.monotonic_ns() + int(seconds * 1e9), error, counted=False, why=why)


def _pickles(task: Any) -> bool:
    return task.app.conf.result_serializer == "pickle" and "pickle" in task.app.conf.accept_content


def _unless_given_up(run: Run) -> None:
    """Raise Ignore in a run that was given up: Celery is to write nothing and publish nothing, the next run does."""
    if run.abandoned:
        raise Ignore


def _is_followed(request: Any) -> bool:
    return bool(request.callbacks or request.chain or request.chord)


def _store_key(order: Order) -> str:
    return store_key(order.name, order.id, order.identity[3])
