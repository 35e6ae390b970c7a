"""This worker's shares of the limits that several workers share through the store: asked for, used, and given up.

Each call takes from what this worker has already, so no call waits for the store. It asks when a key's first order
arrives, when the share is used up, and every quarter of a second as long as orders of such a key are here. It asks for
twice what it needs, so that a load that grows does not wait; beside others it gets its fair share.

While the store is away the shares stay as they are: without the store no order begins anyway. A worker that has stood
still for longer than its lease has lost its shares, as it has lost its orders.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from greenlane._native import Upstreams
from greenlane.errors import StoreError
from greenlane_work.store.shared import Ask, Share
from greenlane_work.worker.owner import Alarm, Owner

__all__ = ["SharedLimits"]

#: Between two questions about a key: how long a change of the shares takes. Arbitrary.
_EVERY_NS: Final = 250_000_000
#: Asked for is this many times what is needed.
_AHEAD: Final = 2


@dataclass
class _Held:
    """What this worker may do at a key, and what the store says that it has."""

    #: Calls that may be in progress; at most `has`.
    may: int = 0
    #: The store has been asked, and its answer is not here yet.
    asking: bool = False
    #: It was given all that it asked for, and could be given more.
    more: bool = True


class SharedLimits:
    """See the module. Everything here is called by the owner.

    Args:
        limit_of: of a key, over all workers; 0 = none is shared.
    """

    def __init__(
        self,
        store: Any,
        upstreams: Upstreams,
        owner: Owner,
        alarm: Alarm,
        *,
        limit_of: Callable[[str], int],
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._store = store
        self._upstreams = upstreams
        self._owner = owner
        self._alarm = alarm
        self._limit_of = limit_of
        self._clock_ns = clock_ns
        self._held: dict[str, _Held] = {}
        self._ringing = False

    def arriving(self, key: str) -> None:
        """An order of this key is about to be parked: none begins before the store has given a share."""
        if not self._limit_of(key):
            return
        if key not in self._held:
            self._held[key] = _Held()
            self._upstreams.lease(key, self._clock_ns(), 0)
        if not self._ringing:
            self._ringing = True
            self._alarm.at(self._clock_ns() + _EVERY_NS, self._rung)

    def arrived(self, key: str) -> None:
        """It is parked: ask, if it may have to wait for a share, and more may be there."""
        held = self._held.get(key)
        if held is not None and held.more and not held.asking and sum(self._upstreams.load(key)) > held.may:
            self._ask([key])

    def _rung(self) -> None:
        self._ringing = bool(self._held)
        if not self._ringing:
            return
        self._alarm.at(self._clock_ns() + _EVERY_NS, self._rung)
        self._ask([key for key, held in self._held.items() if not held.asking])

    def _ask(self, keys: list[str]) -> None:
        asked = []
        for key in keys:
            held, most = self._held[key], self._limit_of(key)
            held.asking = True
            running, parked = self._upstreams.load(key)
            wants = min(most, _AHEAD * (running + parked))
            held.may = min(held.may, wants)
            self._upstreams.lease(key, self._clock_ns(), held.may)
            asked.append(Ask(key, most, wants, max(running, held.may)))
        if asked:
            self._store.share(asked, lambda given: self._owner.post(lambda: self._given(asked, given)))

    def _given(self, asked: list[Ask], given: list[Share] | StoreError) -> None:
        for number, ask in enumerate(asked):
            held = self._held[ask.key]
            held.asking = False
            if isinstance(given, StoreError):
                held.more = False
                continue
            share = given[number]
            held.may, held.more = min(share.has, share.fair), share.has >= ask.wants
            self._upstreams.lease(ask.key, self._clock_ns(), held.may)
            if not ask.wants and not share.has and not sum(self._upstreams.load(ask.key)):
                # It may do nothing until the next order arrives and asks.
                del self._held[ask.key]
