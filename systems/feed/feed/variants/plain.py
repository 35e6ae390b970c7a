"""The ranking path in plain Python: items as dicts, features as lists, predict on a list of lists.

`hashes`, `inline`, `pool` and `split` are this with another store layout or another place for the computation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from redis.asyncio import RedisCluster

from feed import model
from feed.features import features_of
from feed.record import FIELDS, Item, from_hash, from_json
from feed.service.job import Job
from feed.service.rules import Ranked
from feed.stores.items import Read, connected, fetched, hashes, values
from feed.stores.slots import hash_key, json_key
from feed.user import User

from .ranking import RANKED_UNTIL, RECORDS_UNTIL, Given, unranked

# What records of version 1 lack: when all of these are null, it is one.
_SINCE_2 = tuple(field.name for field in FIELDS if field.since > 1)


@dataclass(frozen=True)
class Scored:
    """Scores of items, in their order, and what they cost where they were computed, CPU ns."""

    scores: list[float]
    features_ns: int
    predict_ns: int


@cache
def loaded() -> Any:
    """The ranking model of this process."""
    return model.load()


def scored(items: Sequence[Item], user: User, now_s: int) -> Scored:
    """Features and predict, here and now: tens of ms for 3,000 items, with the GIL."""
    began_ns = time.thread_time_ns()
    rows = features_of(items, user, now_s)
    between_ns = time.thread_time_ns()
    scores = loaded().predict(rows, thread_count=1).tolist() if rows else []
    return Scored(scores, between_ns - began_ns, time.thread_time_ns() - between_ns)


class Plain:
    """Items from the store as dicts, scored by `_scored`, sorted as a list.

    Args:
        given: the site.
        layout: which form of the items is read: "hashes" or "json".
    """

    def __init__(self, given: Given, layout: str) -> None:
        self._given = given
        self._hashes = layout == "hashes"
        self._read: Read = hashes if self._hashes else values
        self._client: RedisCluster

    async def start(self) -> None:
        """Connects, and loads the model."""
        self._client = connected(self._given.addresses.shards)
        loaded()

    async def close(self) -> None:
        """Ends the connections."""
        await self._client.aclose()

    def pids(self) -> list[int]:
        """No process of its own."""
        return []

    async def ranked(self, job: Job, user: User, ids: list[int]) -> Ranked:
        """Fetch, parse, features, predict, sort."""
        key_of = hash_key if self._hashes else json_key
        found = await fetched(job, self._client, self._read, key_of, ids, job.until(RECORDS_UNTIL))
        with job.stages.computing("decode"):
            items = [self._item(found[item_id]) for item_id in ids if item_id in found]
        self._say_what_lacks(job, ids, found, items)
        if not items or asyncio.get_running_loop().time() > job.until(RANKED_UNTIL):
            job.degraded("ranking", "no time left" if items else "no records", "the first level's order")
            return unranked(ids)
        scores = await self._scored(job, items, user)
        if scores is None:
            return unranked(ids)
        with job.stages.computing("sort"):
            return _sorted(items, scores, [item_id for item_id in ids if item_id not in found], job.now_s)

    def _item(self, stored: Any) -> Item:
        return from_hash(stored) if self._hashes else from_json(stored)

    async def _scored(self, job: Job, items: list[Item], user: User) -> list[float] | None:
        """Their scores; None when there are none, which the job then says."""
        found = scored(items, user, job.now_s)
        job.stages.add("features", wall_ns=found.features_ns, cpu_ns=found.features_ns)
        job.stages.add("predict", wall_ns=found.predict_ns, cpu_ns=found.predict_ns)
        return found.scores

    def _say_what_lacks(self, job: Job, ids: Sequence[int], found: dict[int, Any], items: Sequence[Item]) -> None:
        old = sum(all(item[name] is None for name in _SINCE_2) for item in items)
        if old:
            job.degraded("records", f"{old} of an older version", "what it lacks counts as not known")


def _sorted(items: Sequence[Item], scores: Sequence[float], lacking: Sequence[int], now_s: int) -> Ranked:
    order = sorted(range(len(items)), key=lambda place: (-scores[place], items[place]["item_id"]))
    best = [items[place] for place in order]
    nothing = [0] * len(lacking)
    return Ranked(
        [*(item["item_id"] for item in best), *lacking],
        [*(item["boost"] if (item["boost_until_s"] or 0) > now_s else 0 for item in best), *nothing],
        [*(item["seller_id"] for item in best), *nothing],
        [*(item["category"] for item in best), *nothing],
    )
