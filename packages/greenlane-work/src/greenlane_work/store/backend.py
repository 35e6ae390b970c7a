"""Where records are kept: what a store's server or file must be able to do, and what all of them share.

One thread uses a backend, in batches.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from greenlane.errors import StoreRefused
from greenlane_work.store.record import NotARecord, Record, State, decoded, encoded
from greenlane_work.store.rules import Found, Operation, Outcomes
from greenlane_work.store.shared import Ask, Share

__all__ = ["Backend", "Leaseholder", "OneConnection", "Retention", "Tidied", "changed", "found", "owners", "readable"]


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


class Backend(Protocol):
    """A file or a server. Methods raise StoreUnavailable (later it may work) and StoreRefused (it will not)."""

    #: Where it is, for messages: without a password.
    place: str
    #: It blocks outside Python's sockets, so it needs a thread of the operating system, also where those are green.
    blocks: bool

    def apply(self, operations: Sequence[Operation], owner: Leaseholder, renew: bool) -> Outcomes:
        """Apply a batch in one transaction; it is durable when this returns. `renew`: the owner's lease, too."""

    def share(self, asked: Sequence[Ask], owner: Leaseholder, renew: bool) -> list[Share]:
        """Give the owner its shares of limits in one transaction; see `shared`. `renew`: its lease, too."""

    def leave(self, owner: Leaseholder) -> None:
        """End the owner's lease now: what it still had running is in doubt."""

    def find(self, state: State | None, most: int) -> Iterator[tuple[str, Record]]:
        """Records of a state, or all, with their keys; those of owners that are gone as they stand, RUNNING."""

    def read(self, key: str) -> Record | None:
        """One record."""

    def tidy(self) -> Tidied:
        """Forget some of what is over its time: as much as takes a few milliseconds."""

    def close(self) -> None:
        """Give up the connection; the next use makes a new one. Never raises."""


class OneConnection(ABC):
    """A backend's connection: made at the first use, given up after an error."""

    place: str
    _opened: Any = None

    def read(self, key: str) -> Record | None:
        """Give one record; see `Backend`."""
        record = found(key, self._raw(key), self.place)
        if isinstance(record, StoreRefused):
            raise record
        return record

    def close(self) -> None:
        """Close the connection; see `Backend`."""
        opened, self._opened = self._opened, None
        if opened is not None:
            with contextlib.suppress(Exception):
                opened.close()

    @abstractmethod
    def _raw(self, key: str) -> bytes | None:
        """The bytes of an order's record; None = there is none."""


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
