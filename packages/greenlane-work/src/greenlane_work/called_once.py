"""One order called once, by any worker: what `greenlane celery` does around a task, for a task of another worker.

    @app.task(bind=True, acks_late=True)
    def send_order(self, order):
        try:
            return once(store, f"{self.name}/{order}", lambda: post(order), ask=lambda: look_up(order))
        except OrderWaits as wait:
            raise self.retry(countdown=wait.wait_s, max_retries=None)

The old and the new side of a diversion share a store this way, and an order that both are given is called by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from greenlane.errors import OrderWaits, StoreError
from greenlane_work.keys import fitted_key
from greenlane_work.order import NotSent, packed, unpacked
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
    """Give an order's result: of this call, of an earlier one that the store knows, or of the upstream that was asked.

    Args:
        store: shared by all workers that may be given the order.
        key: `TASK/ORDER`, as `greenlane celery` has it.
        call: makes the call. What it gives is kept, if it is JSON.
        ask: asked where nobody knows how an earlier call ended: None = the upstream has not seen the order, else its
            result. Without it the order is called again.
        no_effect: what `call` raises when it is certain that nothing reached the other side, besides `NotSent`.

    Raises:
        OrderWaits: another worker is at it, or the store cannot be asked: nothing was called, try again later.
        BaseException: what `call` or `ask` raise; the order is then in doubt, unless it had no effect.
    """
    key = fitted_key(key)
    try:
        begun = store.begin(key)
    except StoreError as error:
        raise OrderWaits(key, _STORE_PAUSE_S, str(error).partition("\n")[0]) from error
    if begun.state is State.DONE:
        return unpacked(begun.result)
    if begun.state is State.RUNNING:
        raise OrderWaits(key, max(begun.wait_s, 0.05), f"{begun.owner} is at it")
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
