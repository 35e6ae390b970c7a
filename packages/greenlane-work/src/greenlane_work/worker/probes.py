"""A worker whose probes have decided about a key tells the others, by Celery's remote control.

Probes that ended well close the others' breakers, too: nobody waits for an open time of its own. After failed ones the
others wait as long as this worker does, and probe once in that time, together. What is opened by hand or by
`Retry-After` stays open. Without remote control each worker finds out by itself.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from greenlane._native import Upstreams
from greenlane_work.keys import provider_of
from greenlane_work.order import Run
from greenlane_work.worker.owner import Owner

__all__ = ["COMMAND", "Probes"]

_log = logging.getLogger("greenlane.work")

#: The remote control command; its arguments are `key` (a provider's ends with a slash), `seconds` for which the worker
#: waits (0 = the key answers again), and `by`, the worker.
COMMAND: Final = "greenlane_probed"


class Probes:
    """See the module.

    Args:
        providers: decides for the coarser part of keys in two parts; None = keys have one.
        elsewhere: lets something be done soon, on a thread that may wait for the broker. By its name the next one
            takes its place if it still waits then.
        keyed: orders have keys; one that stands for all upstreams has no breaker.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        providers: Upstreams | None,
        owner: Owner,
        *,
        keyed: bool,
        elsewhere: Callable[[str, Callable[[Any], object]], object],
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._upstreams = upstreams
        self._providers = providers
        self._owner = owner
        self._keyed = keyed
        self._elsewhere = elsewhere
        self._clock_ns = clock_ns
        self._own: Final = uuid.uuid4().hex
        # Until when failed probes keep a key's breaker open that the others know of. For the owner.
        self._told_ns: dict[str, int] = {}

    def ended(self, run: Run, *, well: bool) -> None:
        """A call has ended. Tell the others what it has decided, if it was a probe. For the owner."""
        for key in run.probes:
            upstreams, name = self._place(key)
            look = upstreams.look_at(name)
            if look is None:
                continue
            if well and look.breaker == "closed":
                self._tell(run.order.request.app, key, 0)
            # Where most upstreams fail, the reason is probably this worker's, and says nothing to the others.
            elif not well and look.breaker == "open" and not upstreams.totals().common:
                self._failed(run.order.request.app, key, look.open_until_ns)

    def command(self, _state: Any, key: Any = "", seconds: Any = None, by: Any = "") -> None:
        """Do what another worker says. On the thread of the remote control."""
        known = isinstance(key, str) and isinstance(seconds, int | float) and 0 <= seconds < 1e6
        if self._keyed and known and by != self._own:
            self._owner.post(lambda: self._heard(key, int(seconds * 1e9)))

    def _heard(self, key: str, wait_ns: int) -> None:
        upstreams, name = self._place(key)
        look = upstreams.look_at(name)
        if look is None or look.breaker not in ("open", "half-open"):
            return
        if wait_ns:
            upstreams.probes_failed(name, self._clock_ns(), wait_ns)
        else:
            _log.info("another worker reports that %r answers again: its orders start", key)
            upstreams.close(name, self._clock_ns())

    def _failed(self, app: Any, key: str, until_ns: int) -> None:
        now_ns = self._clock_ns()
        if until_ns != self._told_ns.get(key):
            self._told_ns = {known: told_ns for known, told_ns in self._told_ns.items() if told_ns > now_ns}
            self._told_ns[key] = until_ns
            self._tell(app, key, (until_ns - now_ns) / 1e9)

    def _tell(self, app: Any, key: str, seconds: float) -> None:
        if not app.conf.worker_enable_remote_control:
            return

        def tell(_connection: Any) -> None:
            try:
                app.control.broadcast(COMMAND, arguments={"key": key, "seconds": seconds, "by": self._own})
            except Exception as failed:
                _log.debug("telling the other workers what probes of %r found failed: %r", key, failed)

        self._elsewhere(f"telling the other workers of {key!r}", tell)

    def _place(self, key: str) -> tuple[Upstreams, str]:
        """Who decides for a key or provider, and its name there."""
        if self._providers is not None and key.endswith("/"):
            return self._providers, provider_of(key)
        return self._upstreams, key
