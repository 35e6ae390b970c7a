"""An upstream that says when to come again (429 or 503 with `Retry-After`) is left alone until then, by all workers.

Its breaker is opened for that time and then closed. Workers tell each other by Celery's remote control, so that each of
them need not be refused first; without remote control each finds out by itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from greenlane._native import Upstreams
from greenlane_work.order import Order
from greenlane_work.worker.outcomes import upstream_retry_after_s
from greenlane_work.worker.owner import Alarm, Owner

__all__ = ["COMMAND", "Pauses"]

_log = logging.getLogger("greenlane.work")

#: The remote control command; its arguments are `key` and `seconds`.
COMMAND: Final = "greenlane_pause"
#: Of repetitions within this time only the first is sent to the other workers. Arbitrary.
_NEWS_NS: Final = 1_000_000_000


class Pauses:
    """See the module. `keyed`: orders have keys; one that stands for all upstreams is never paused."""

    def __init__(
        self,
        upstreams: Upstreams,
        owner: Owner,
        alarm: Alarm,
        *,
        keyed: bool,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._upstreams = upstreams
        self._owner = owner
        self._alarm = alarm
        self._keyed = keyed
        self._clock_ns = clock_ns
        # Until when, monotonic. Written by the owner.
        self._until_ns: dict[str, int] = {}

    def refused(self, order: Order, error: BaseException) -> None:
        """Take the upstream's word, if it said one, and tell the others. On the thread of the run, which may wait."""
        seconds = upstream_retry_after_s(error) if self._keyed else None
        if seconds is None:
            return
        if self._clock_ns() + int(seconds * 1e9) - self._until_ns.get(order.key, 0) < _NEWS_NS:
            return
        self.pause(order.key, seconds)
        app = order.request.app
        if app.conf.worker_enable_remote_control:
            try:
                app.control.broadcast(COMMAND, arguments={"key": order.key, "seconds": seconds})
            except Exception as failed:
                _log.debug("telling the other workers to pause %r failed: %r", order.key, failed)

    def pause(self, key: str, seconds: float) -> None:
        """Let no order of this key begin for this long. From any thread."""
        until_ns = self._clock_ns() + int(seconds * 1e9)
        self._owner.post(lambda: self._begin(key, until_ns))

    def forget(self, key: str) -> None:
        """Leave its breaker alone: it has just been switched by hand. For the owner."""
        self._until_ns.pop(key, None)

    def command(self, _state: Any, key: Any = "", seconds: Any = 0.0) -> None:
        """Do what another worker says."""
        if self._keyed and isinstance(key, str) and isinstance(seconds, int | float) and seconds > 0:
            self.pause(key, seconds)

    def _begin(self, key: str, until_ns: int) -> None:
        if until_ns <= self._until_ns.get(key, 0):
            return
        if key not in self._until_ns:
            left_s = (until_ns - self._clock_ns()) / 1e9
            _log.warning("%r asked to be left alone for %.0f s: its orders wait", key, left_s)
        self._until_ns[key] = until_ns
        self._upstreams.open(key, self._clock_ns())
        self._alarm.at(until_ns, lambda: self._end(key, until_ns))

    def _end(self, key: str, until_ns: int) -> None:
        if self._until_ns.get(key) == until_ns:
            del self._until_ns[key]
            self._upstreams.close(key, self._clock_ns())
