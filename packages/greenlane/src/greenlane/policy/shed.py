"""The rule of early refusals: constants, in the units and under the names of greenlane-policy's `shed`."""

from __future__ import annotations

import dataclasses
from typing import Final

__all__ = ["ShedRule"]

_NS_PER_MS: Final = 1_000_000
#: Shorter waits are no queue: the time of a hand-over on a busy machine.
_WAITED_MS: Final = 5
#: A queue is persistent when for this long, and for this many requests, each had to wait. Arbitrary: longer than
#: the bursts of arrivals that a service below capacity has, shorter than any deadline worth keeping.
_STANDS_MS: Final = 100
_STANDS_COUNT: Final = 3
#: One in a hundred that is let in may still end late.
_SHED_FRAC: Final = 0.99
#: Share of a deadline that a request is expected to take at most; the rest may always be waited. Arbitrary.
_SHED_MOST: Final = 0.75


@dataclasses.dataclass(frozen=True)
class ShedRule:
    """Arguments of `_native.Shed`, one for one."""

    waited_ns: int
    stands_ns: int
    stands_count: int
    frac: float
    most: float

    @classmethod
    def of(cls) -> ShedRule:
        """Give the rule; no setting changes it: the deadline is the lane's or the request's."""
        return cls(
            waited_ns=_WAITED_MS * _NS_PER_MS,
            stands_ns=_STANDS_MS * _NS_PER_MS,
            stands_count=_STANDS_COUNT,
            frac=_SHED_FRAC,
            most=_SHED_MOST,
        )
