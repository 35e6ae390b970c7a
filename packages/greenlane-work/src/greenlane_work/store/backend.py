"""Where records are kept: what a store's server or file must be able to do, and what all of them share.

One thread uses a backend, in batches.
"""

from __future__ import annotations

import contextlib
import enum
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from greenlane.errors import StoreRefused
from greenlane_work.store.record import NotARecord, Record, State, decoded, encoded
from greenlane_work.store.rules import Found, Operation, Outcomes, decide
from greenlane_work.store.shared import Ask, Share, shared_out, workers_in

__all__ = ["Backend", "Decide", "Leaseholder", "LeftOf", "Retention", "Rows", "Table", "Tidied", "readable"]


@dataclass(frozen=True)
class Leaseholder:
    """A process that begins orders, as the store knows it while its lease lasts."""

    #: Of this start of this process alone.
    name: str
    lease_s: float


@dataclass(frozen=True)
class Retention:
    """How long records are kept after their last change. A redelivery that comes later finds nothing: it is called."""

    #: Orders that are done, or that certainly had no effect. 7 days: longer than any broker should hold an order.
    settled_s: float = 7 * 86_400.0
    #: Orders in doubt, and those that never ended. 90 days: somebody should look at them first.
    unsettled_s: float = 90 * 86_400.0

    def seconds(self, state: State) -> float:
        """Of a record in this state."""
        return self.settled_s if state in (State.DONE, State.NEW) else self.unsettled_s


class Tidied(NamedTuple):
    """What one tidying did."""

    #: Deleted records.
    gone: int
    #: There is more to look at.
    more: bool


class Table(enum.Enum):
    """What is kept."""

    ORDERS = "orders"
    #: Limits that workers share.
    LIMITS = "limits"


#: Bytes by key; None = there is no row.
Rows = dict[str, bytes | None]
#: Seconds that owners' leases have left; 0, or missing = they have ended.
LeftOf = Callable[[Iterable[str]], dict[str, float]]
#: From rows that are there to those to be written: key to state ("" of a limit) and bytes, b"" = none.
Decide = Callable[[Rows, LeftOf], dict[str, tuple[str, bytes]]]


class Backend(ABC):
    """A file or a server, over one connection that is made at the first use and given up after an error.

    Methods raise StoreUnavailable (later it may work) and StoreRefused (it will not).
    """

    #: Where it is, for messages: without a password.
    place: str
    #: It blocks outside Python's sockets, so it needs a thread of the operating system, also where those are green.
    blocks: bool
    _opened: Any = None

    @abstractmethod
    def leave(self, owner: Leaseholder) -> None:
        """End the owner's lease now: what it still had running is in doubt."""

    @abstractmethod
    def find(self, state: State | None, most: int) -> Iterator[tuple[str, Record]]:
        """Records of a state, or all, with their keys; those of owners that are gone as they stand, RUNNING."""

    @abstractmethod
    def tidy(self) -> Tidied:
        """Forget some of what is over its time: as much as takes a few milliseconds."""

    @abstractmethod
    def _exchange(self, table: Table, keys: list[str], decided: Decide, owner: Leaseholder, renew: bool) -> None:
        """Read these rows, and write what is decided: for each as if nobody else were there.

        `decided` may be asked again for rows that somebody else has changed meanwhile.
        """

    @abstractmethod
    def _raw(self, key: str) -> bytes | None:
        """The bytes of an order's record; None = there is none."""

    def apply(self, operations: Sequence[Operation], owner: Leaseholder, renew: bool) -> Outcomes:
        """Apply a batch in one transaction; it is durable when this returns. `renew`: the owner's lease, too."""
        outcomes: dict[int, Any] = {}

        def decided(raw: Rows, left_of: LeftOf) -> dict[str, tuple[str, bytes]]:
            asked = {number: each for number, each in enumerate(operations) if each.key in raw}
            before = {key: found(key, each, self.place) for key, each in raw.items()}
            records = dict(before)
            left_s = {**left_of(owners(before, owner.name)), owner.name: owner.lease_s}
            answers = decide([*asked.values()], records, time.time(), lambda name: left_s.get(name, 0.0))
            outcomes.update(zip(asked, answers, strict=True))
            return {key: (state, record) for key, state, record in changed(before, records)}

        self._exchange(Table.ORDERS, [*dict.fromkeys(each.key for each in operations)], decided, owner, renew)
        return [outcomes[number] for number in range(len(operations))]

    def share(self, asked: Sequence[Ask], owner: Leaseholder, renew: bool) -> list[Share]:
        """Give the owner its shares of limits in one transaction; see `shared`."""
        given: dict[str, Share] = {}

        def decided(raw: Rows, left_of: LeftOf) -> dict[str, tuple[str, bytes]]:
            before = {key: (each or b"").decode(errors="replace") for key, each in raw.items()}
            left_s = left_of(sorted(workers_in(before.values()) - {owner.name}))
            some = [ask for ask in asked if ask.key in raw]
            written, shares = shared_out(before, some, owner.name, lambda name: left_s.get(name, 0.0), time.time())
            given.update((ask.key, share) for ask, share in zip(some, shares, strict=True))
            # With a renewal all of them: in Redis a row lives for ten leases after it was written.
            return {key: ("", text.encode()) for key, text in written.items() if renew or text != before[key]}

        self._exchange(Table.LIMITS, [ask.key for ask in asked], decided, owner, renew)
        return [given[ask.key] for ask in asked]

    def read(self, key: str) -> Record | None:
        """Give one record; None = there is none."""
        record = found(key, self._raw(key), self.place)
        if isinstance(record, StoreRefused):
            raise record
        return record

    def close(self) -> None:
        """Give up the connection; the next use makes a new one. Never raises."""
        opened, self._opened = self._opened, None
        if opened is not None:
            with contextlib.suppress(Exception):
                opened.close()


def found(key: str, raw: bytes | None, place: str) -> Found:
    """The record of these bytes; None of none, an error of bytes that are no record."""
    if not raw:
        return None
    try:
        return decoded(raw)
    except NotARecord as error:
        hint = f"ask its upstream whether it was done, then delete its record from {place}"
        return StoreRefused("read an order's record", name="key", value=key, rule=f"a record ({error})", hint=hint)


def readable(rows: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, Record]]:
    """Keys and records of rows, without those that cannot be read."""
    for key, raw in rows:
        record = found(key, raw, "")
        if isinstance(record, Record):
            yield key, record


def changed(before: Mapping[str, Found], after: Mapping[str, Found]) -> Iterator[tuple[str, str, bytes]]:
    """Key, state and bytes of the records that differ."""
    for key, record in after.items():
        if isinstance(record, Record) and record is not before[key]:
            yield key, record.state.value, encoded(record)


def owners(records: Mapping[str, Found], but: str) -> list[str]:
    """Owners of the orders that run, other than `but`."""
    running = (
        record.attempts[-1].owner
        for record in records.values()
        if isinstance(record, Record) and record.state is State.RUNNING
    )
    return sorted({name for name in running if name != but})
