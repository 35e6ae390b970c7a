"""What a variant is: the ranking path, from ids to the ranked list. What is before and after it is the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from feed import native
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


# --- What variants with native features have in common: a ranking that native code made, and what it says of its
# items.


class NativeRanked:
    """A ranking that native code made, with the ids that it knows nothing of."""

    def __init__(self, ranking: native.Ranking, lacking: list[int]) -> None:
        self._ranking = ranking
        self._lacking = lacking

    @property
    def ids(self) -> list[int]:
        """Best first; what could not be ranked last."""
        found: list[int] = memoryview(self._ranking.ids).tolist()
        return found + self._lacking

    def arranged(self) -> list[int]:
        """The business rules, in native code too."""
        found: list[int] = memoryview(self._ranking.arranged(self._lacking)).tolist()
        return found


def say(job: Job, unreadable: int, older: int, ranked: int) -> None:
    """Notes what the records lack."""
    if unreadable:
        job.degraded("records", f"{unreadable} are unreadable", "those items are shown unranked, at the end")
    if older:
        job.degraded("records", f"{older} are of an older version", "what they lack counts as not known")
    if not ranked:
        job.degraded("ranking", "no records", "the first level's order")


def lacking(ids: Sequence[int], order: Sequence[int], places: Sequence[int]) -> list[int]:
    """Of `ids` those that were not ranked: ranked are `order[place]`."""
    if len(places) == len(ids):
        return []
    there = {order[place] for place in places}
    return [item_id for item_id in ids if item_id not in there]


# --- Every variant by its name, in the order of the ladder. A variant is a module here with `ranking(given)`.


VARIANTS: Final = (
    "inline", "pool", "split", "shared-memory", "native-go", "greenlane",
)  # fmt: skip


def ranking(name: str, given: Given) -> Ranking:
    """The ranking path of a variant; its module is imported now, so that no variant pays for another's imports."""
    if name not in VARIANTS:
        raise ValueError(f"choosing a variant: name={name!r}, expected one of {', '.join(VARIANTS)}")
    made: Ranking = import_module(f".{name.replace('-', '_')}", __package__).ranking(given)
    return made
