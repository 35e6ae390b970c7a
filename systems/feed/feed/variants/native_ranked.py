"""What variants with native features have in common: a ranking that native code made, and what it says of its items."""

from __future__ import annotations

from collections.abc import Sequence

from feed import native
from feed.service.job import Job


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
