"""A worker whose probes have closed a key's breaker tells the others, by Celery's remote control: theirs close, too.

So an upstream that is well again is found by the worker whose open time ends first, and the others need not wait for
theirs. What is opened by hand or by `Retry-After` stays open. Without remote control each worker finds out by itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from greenlane._native import Upstreams
from greenlane_work.order import Order
from greenlane_work.worker.owner import Owner

__all__ = ["COMMAND", "Recoveries"]

_log = logging.getLogger("greenlane.work")

#: The remote control command; its argument is `key`.
COMMAND: Final = "greenlane_recovered"


class Recoveries:
    """See the module.

    Args:
        elsewhere: lets something be done soon, on a thread that may wait for the broker.
        keyed: orders have keys; one that stands for all upstreams has no breaker.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        owner: Owner,
        *,
        keyed: bool,
        elsewhere: Callable[[Callable[[Any], object]], object],
        turn: Callable[[], object],
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._upstreams = upstreams
        self._owner = owner
        self._keyed = keyed
        self._elsewhere = elsewhere
        self._turn = turn
        self._clock_ns = clock_ns

    def probed(self, order: Order) -> None:
        """A probe has ended well: tell the others, if that has closed the breaker. For the owner."""
        app = order.request.app
        if self._breaker(order.key) != "closed" or not app.conf.worker_enable_remote_control:
            return
        said = {"key": order.key}

        def tell(_connection: Any) -> None:
            try:
                app.control.broadcast(COMMAND, arguments=said)
            except Exception as failed:
                _log.debug("telling the other workers that %r answers again failed: %r", said["key"], failed)

        self._elsewhere(tell)

    def command(self, _state: Any, key: Any = "") -> None:
        """Do what another worker says. On the thread of the remote control."""
        if self._keyed and isinstance(key, str):
            self._owner.post(lambda: self._close(key))

    def _close(self, key: str) -> None:
        if self._breaker(key) in ("open", "half-open"):
            _log.info("another worker reports that %r answers again: its orders start", key)
            self._upstreams.close(key, self._clock_ns())
            self._turn()

    def _breaker(self, key: str) -> str:
        """Its state; "" = it is not known. O(keys), and rare."""
        return next((look.breaker for look in self._upstreams.look() if look.key == key), "")
