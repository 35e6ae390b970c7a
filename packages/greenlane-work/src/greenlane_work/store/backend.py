"""Where records are kept: what a store's server or file must be able to do. One thread uses it, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from greenlane_work.store.record import Record, State
from greenlane_work.store.rules import Operation, Outcomes

__all__ = ["Backend", "Owner", "Retention", "Tidied"]


@dataclass(frozen=True)
class Owner:
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

    #: Records that are no more.
    gone: int
    #: There is more to look at.
    more: bool


class Backend(Protocol):
    """A file or a server. Methods raise StoreUnavailable (later it may work) and StoreRefused (it will not)."""

    #: Where it is, for messages: without a password.
    place: str
    #: It blocks outside Python's sockets, so it needs a thread of the operating system, also where those are green.
    blocks: bool

    def apply(self, operations: Sequence[Operation], owner: Owner, renew: bool) -> Outcomes:
        """Apply a batch in one transaction; it is durable when this returns. `renew`: the owner's lease, too."""

    def leave(self, owner: Owner) -> None:
        """End the owner's lease now: what it still had running is in doubt."""

    def find(self, state: State | None, most: int) -> Iterator[tuple[str, Record]]:
        """Records of a state, or all, with their keys; those of owners that are gone as they stand, RUNNING."""

    def read(self, key: str) -> Record | None:
        """One record."""

    def tidy(self) -> Tidied:
        """Forget some of what is over its time: as much as takes a few milliseconds."""

    def close(self) -> None:
        """Give up the connection; the next use makes a new one. Never raises."""
