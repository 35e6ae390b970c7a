"""The store as the worker uses it: asked before a call, told how it ended. It is loaded only where there is a store."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from celery.exceptions import SoftTimeLimitExceeded

from greenlane.errors import StoreError
from greenlane_work.headers import tried_of
from greenlane_work.keys import store_key
from greenlane_work.order import Done, Order, Run
from greenlane_work.packing import packed, unpacked
from greenlane_work.store import Answer, Kind, State, Store
from greenlane_work.worker.outcomes import Dead, waiting

__all__ = ["Ledger", "is_followed"]

#: While the store cannot be asked the order waits this long. Arbitrary.
STORE_PAUSE_S: Final = 1.0
#: While it runs elsewhere it is asked for after this long, doubled each time up to the second. Arbitrary.
_AGAIN_S: Final = 0.05
_AGAIN_MOST_S: Final = 5.0


class Ledger:
    """See the module. What blocks is for the run's own thread, the rest for the owner of the channel."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.waits = 0

    # --- by the owner -----------------------------------------------------------------------------------------------

    def ask(self, run: Run, told: Callable[[], object]) -> None:
        """Ask for a run that is about to begin, without waiting; `told` is called on the store's thread.

        So a thread is woken only when there is something for it to do. The run takes the answer, or `untaken` does.
        """

        def answered(answer: Any) -> None:
            run.token = getattr(answer, "token", "")
            run.answer = answer
            told()

        self._store.submit(Kind.BEGIN, _name(run.order), answered)

    def untaken(self, run: Run) -> None:
        """A run has ended, or did not begin, without a look at the store's answer: nothing was called."""
        answer, run.answer = run.answer, None
        if token := getattr(answer, "token", ""):
            self._submit(run, Kind.FAILED, token, reason="it was not called")

    def tell(self, run: Run, then: Callable[[BaseException | None], object]) -> bool:
        """Tell what a run has left to tell, without waiting. False: there is nothing.

        Args:
            run: has ended.
            then: called on the store's thread when it is written down; None, or why the order has to come again.
        """
        untold, run.untold = run.untold, None
        if untold is None:
            return False

        def told(answer: Any) -> None:
            if isinstance(answer, StoreError):  # this process ends: the message stays unacknowledged
                then(waiting(STORE_PAUSE_S, answer))
                return
            if run.done is not None:
                run.done = dataclasses.replace(run.done, token="")
            then(None)

        kind, what = untold
        self._store.submit(kind, _name(run.order), told, **what)
        return True

    def in_doubt(self, run: Run, reason: str) -> None:
        """Report, without waiting, that the end of the running attempt is unknown."""
        if run.token:
            self._submit(run, Kind.UNKNOWN, run.token, reason=reason)

    # --- by the run -------------------------------------------------------------------------------------------------

    def begin(self, run: Run, task: Any) -> tuple[bool, Any, bool]:
        """Give whether the order is done already, with its result, and whether an earlier attempt's end is unknown.

        Raises:
            Again: it runs elsewhere, or the store does not answer. Nothing was called: no fault of task or upstream.
            Dead: it is done, and what follows it needs a result that was not kept.
        """
        order = run.order
        try:
            begun = self._answer(run)
        except (StoreError, SoftTimeLimitExceeded) as error:
            self.waits += 1
            raise waiting(STORE_PAUSE_S, error) from error
        if begun.state is State.DONE:
            if not begun.result and is_followed(task.request):
                raise Dead("it is done, and its result was not kept for what follows it", reason="result")
            return True, unpacked(begun.result, pickled=_pickles(task)), False
        if begun.state is State.RUNNING:
            self.waits += 1
            # A lease is how long it may take to learn that its owner died; most often it is about to end well.
            order.waits += 1
            raise waiting(min(begun.wait_s, _AGAIN_S * 2.0 ** min(order.waits, 10), _AGAIN_MOST_S))
        order.waits = 0
        run.token = begun.token
        order.attempts = max(order.attempts + 1, begun.attempt - order.earlier)
        return False, None, begun.state is State.UNKNOWN

    def hold(self, run: Run) -> None:
        """Raise Again when the lease ran out between begin and call: this process stood still, another may have it."""
        if not self._store.holds_since_begin(run.token):
            self.waits += 1
            run.order.attempts -= 1
            self._at_the_end(run, Kind.FAILED, reason="not called: the lease had run out")
            raise waiting(_AGAIN_S)

    def keep(self, run: Run, task: Any, result: Any) -> None:
        """Have the result of a call that ended well, before anything that follows it is published."""
        token = run.done.token if run.done is not None else ""
        if not token:
            return
        if run.abandoned or not is_followed(task.request):
            # Nothing is published after it: the store is told beside the rest of the run, which ends when it knows.
            self._at_the_end(run, Kind.DONE, token, result=packed(result, pickled=_pickles(task)))
            return
        try:
            self.done(run, task, result, token)
        except SoftTimeLimitExceeded as error:
            raise waiting(STORE_PAUSE_S, error) from error
        run.done = dataclasses.replace(run.done or Done(result), token="")

    def done(self, run: Run, task: Any, result: object, token: str) -> None:
        """Say that it has had its effect; this waits as long as the store is away."""
        try:
            self._store.done(_name(run.order), packed(result, pickled=_pickles(task)), token=token)
        except StoreError as error:  # this process ends: the message stays unacknowledged, and the order in doubt
            raise waiting(STORE_PAUSE_S, error) from error

    def absent(self, run: Run) -> None:
        """Say that the upstream was asked, and has never seen it."""
        self._store.absent(_name(run.order), token=run.token)

    def failed(self, run: Run, *, answer: bool, no_effect: bool, reason: str) -> None:
        """Say how a call failed, when its run has ended. `answer`: it counts as done.

        Not before: a soft limit does not end a wait for the store here, and the next attempt of `self.retry` begins
        when Celery has written RETRY, or that could overwrite its result.
        """
        if answer:
            self._at_the_end(run, Kind.DONE, result=packed(None))
        else:
            self._at_the_end(run, Kind.FAILED if no_effect else Kind.UNKNOWN, reason=reason)

    def give_up(self, run: Run, *, unknown: bool) -> None:
        """Say that there is no further attempt; the order gets its history."""
        order, key = run.order, _name(run.order)
        order.history = tried_of(self._store.history(key)) or order.history
        (self._store.unknown if unknown else self._store.failed)(key, "given up", token=run.token)

    def _answer(self, run: Run) -> Answer:
        """What the store said before the run; one that nobody has asked for waits for it here."""
        answer, run.answer = run.answer, None
        if answer is None:
            return self._store.begin(_name(run.order))
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]

    def _at_the_end(self, run: Run, kind: Kind, token: str = "", **what: Any) -> None:
        """Tell it when the run has ended; now, by one that was given up: the next one may have begun."""
        if run.abandoned:
            self._submit(run, kind, token or run.token, **what)
        else:
            run.untold = (kind, {**what, "token": token or run.token})

    def _submit(self, run: Run, kind: Kind, token: str, **what: Any) -> None:
        self._store.submit(kind, _name(run.order), lambda _answer: None, **what, token=token)


def is_followed(request: Any) -> bool:
    """Whether something is published when this task has ended well."""
    return bool(request.callbacks or request.chain or request.chord)


def _pickles(task: Any) -> bool:
    return task.app.conf.result_serializer == "pickle" and "pickle" in task.app.conf.accept_content


def _name(order: Order) -> str:
    return store_key(order.name, order.id, order.identity[3])
