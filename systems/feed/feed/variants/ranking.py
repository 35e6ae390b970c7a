"""What a variant is: the ranking path, from ids to the ranked list. What is before and after it is the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from feed.service.job import Job
from feed.service.rules import Ranked
from feed.site import Addresses
from feed.user import User

# Shares of the deadline: records that have not come are done without; what cannot be ranked is shown as it is.
RECORDS_UNTIL = 0.70
RANKED_UNTIL = 0.90


@dataclass(frozen=True)
class Given:
    """What a variant starts with.

    Args:
        addresses: of the site.
        workers: processes for CPU work, for variants that have some.
    """

    addresses: Addresses
    workers: int


class Arrangeable(Protocol):
    """A ranked list on which the business rules can be put: `rules.Ranked`, or native code's own."""

    @property
    def ids(self) -> Sequence[int]:
        """Best first."""

    def arranged(self) -> Sequence[int]:
        """What service/rules.py makes of it: every id once, in the order in which it is shown."""


class Ranking(Protocol):
    """A variant's ranking path. Its stages: `records`, `features`, `predict`, `sort`, and its own for transport."""

    def candidates(self, job: Job, bodies: Mapping[str, bytes], user: User) -> list[int]:
        """What `candidates.chosen` makes of the models' answers (JSON); unreadable ones are noted in the job."""

    def encoded(self, answer: Mapping[str, Any]) -> bytes:
        """An answer as JSON."""

    async def start(self) -> None:
        """Connects, starts workers, warms up: after it the first request is like any other."""

    async def ranked(self, job: Job, user: User, ids: list[int]) -> Arrangeable:
        """Every id once, best first, equal scores by id; ids without a record come last, in the given order.

        Notes in the job what it had to do without, and gives an answer until RANKED_UNTIL of the deadline,
        `unranked(ids)` at worst. May raise what it did not expect: the service then does the same.
        """

    async def close(self) -> None:
        """Ends workers and connections."""

    def pids(self) -> list[int]:
        """Processes that belong to the service beside the one that serves."""


def unranked(ids: Sequence[int]) -> Ranked:
    """The feed when nobody can rank: the first level's order, no boosts."""
    nothing = [0] * len(ids)
    return Ranked(ids, nothing, nothing, nothing)
