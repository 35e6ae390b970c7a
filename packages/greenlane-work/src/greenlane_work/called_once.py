"""One order called once, by any worker: what `greenlane celery` does around a task, for a task of another worker.

    @app.task(bind=True, acks_late=True, max_retries=None)
    def send_order(self, order):
        try:
            return once(store, f"{self.name}/{order}", lambda: post(order), ask=lambda: look_up(order))
        except OrderWaits as wait:
            raise self.retry(countdown=wait.wait_s)

The limit on retries must be lifted there: for Celery `max_retries=None` in the call of `retry` means the task's own, 3.

The old and the new side of a diversion share a store this way, and an order that both are given is called by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from greenlane.errors import OrderWaits, StoreError
from greenlane_work.keys import fitted_key
from greenlane_work.order import NotSent
from greenlane_work.packing import packed, unpacked
from greenlane_work.store import Answer, State, Store

__all__ = ["once"]

#: While the store cannot be asked. Arbitrary.
_STORE_PAUSE_S: Final = 5.0


def once(
    store: Store,
    key: str,
    call: Callable[[], Any],
    *,
    ask: Callable[[], Any] | None = None,
    no_effect: tuple[type[BaseException], ...] = (),
) -> Any:
    """Call an order once. Gives the result of this call, of an earlier one in the store, or of asking the upstream.

    Args:
        store: shared by all workers that may get the order.
        key: `TASK/ORDER`, as in `greenlane celery`.
        call: makes the call. Its result is kept, if it is JSON.
        ask: called when the end of an earlier call is unknown: None = the upstream has not seen the order, else its
            result. Without it the order is called again.
        no_effect: exceptions of `call`, besides `NotSent`, that prove that nothing reached the upstream.

    Raises:
        OrderWaits: another worker runs it, or the store is unavailable. Nothing was called: try again later.
        BaseException: exceptions of `call` or `ask`. The order's effect is then unknown, unless it had none.
    """
    key = fitted_key(key)
    try:
        begun = store.begin(key)
    except StoreError as error:
        raise OrderWaits(key, _STORE_PAUSE_S, str(error).partition("\n")[0]) from error
    if begun.state is State.DONE:
        return unpacked(begun.result)
    if begun.state is State.RUNNING:
        raise OrderWaits(key, max(begun.wait_s, 0.05), f"{begun.owner} runs it")
    sent = False
    try:
        known = _asked(store, key, begun, ask) if begun.state is State.UNKNOWN and ask is not None else None
        if known is None:
            if not store.holds_since_begin(begun.token):
                # This process stood still for longer than its lease: another one may have the order by now.
                raise OrderWaits(key, 0.1, "the lease had run out")
            sent = True
            known = call()
    except BaseException as error:
        # An attempt that sent nothing had no effect; what was in doubt before it still is.
        certain = not sent or isinstance(error, (NotSent, *no_effect))
        (store.failed if certain else store.unknown)(key, repr(error), token=begun.token)
        raise
    store.done(key, packed(known), token=begun.token)
    return known


def _asked(store: Store, key: str, begun: Answer, ask: Callable[[], Any]) -> Any:
    """What the upstream says: None = it has not seen the order, so it may be called."""
    known = ask()
    if known is None:
        store.absent(key, token=begun.token)
    return known
