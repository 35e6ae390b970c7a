"""The ranking path in plain Python: items as dicts, features as lists, predict on a list of lists.

`inline`, `pool` and `split` are this with another place for the computation.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from redis.asyncio import RedisCluster

from feed.features import features_of
from feed.model import ModelFiles, load_catboost
from feed.record import Item, OlderItem, from_json
from feed.service.job import Job
from feed.service.rules import Ranked
from feed.stores.items import connected, fetched, json_key, values
from feed.user import Named, User, chosen, named

from .ranking import RANKED_UNTIL, RECORDS_UNTIL, Arrangeable, Given, unranked


@dataclass(frozen=True)
class Scored:
    """Scores of items, in their order, and what they cost where they were computed, CPU ns."""

    scores: list[float]
    features_ns: int
    predict_ns: int


@cache
def loaded(model: str) -> Any:
    """The ranking model of a folder, once a process."""
    return load_catboost(ModelFiles(Path(model)))


def scored(model: str, items: Sequence[Item], user: User, now_s: int) -> Scored:
    """Features and predict, here and now: over 100 ms for 3,000 items, with the GIL."""
    began_ns = time.thread_time_ns()
    rows = features_of(items, user, now_s)
    between_ns = time.thread_time_ns()
    scores = loaded(model).predict(rows, thread_count=1).tolist() if rows else []
    return Scored(scores, between_ns - began_ns, time.thread_time_ns() - between_ns)


def candidates(job: Job, bodies: Mapping[str, bytes], user: User) -> list[int]:
    """What the models named, filtered, in plain Python."""
    answers: dict[str, Named] = {}
    for model, body in bodies.items():
        try:
            answers[model] = named(body)
        except ValueError:
            job.degraded("models", f"{model}: its answer is unreadable", "its candidates are missing")
    return chosen(answers, user)


class Plain:
    """Items from the store as dicts, scored by `_scored`, sorted as a list.

    Args:
        given: the site.
    """

    def __init__(self, given: Given) -> None:
        self._given = given
        self._model = given.addresses.model
        self._pace = Pace()
        self._client: RedisCluster

    async def start(self) -> None:
        """Connects, and loads the model."""
        self._connect()
        loaded(self._model)

    def _connect(self) -> None:
        self._client = connected(self._given.addresses.shards)

    async def close(self) -> None:
        """Ends the connections."""
        await self._client.aclose()

    def pids(self) -> list[int]:
        """No process of its own."""
        return []

    def candidates(self, job: Job, bodies: Mapping[str, bytes], user: User) -> list[int]:
        """json.loads and dicts."""
        return candidates(job, bodies, user)

    def encoded(self, answer: Mapping[str, Any]) -> bytes:
        """json.dumps."""
        return json.dumps(answer).encode()

    async def ranked(self, job: Job, user: User, ids: list[int]) -> Arrangeable:
        """Fetch, parse, features, predict, sort."""
        found = await fetched(job, self._client, values, json_key, ids, job.until(RECORDS_UNTIL))
        with job.stages.computing("decode"):
            items = self._items(job, ids, found)
        if not items:
            job.degraded("ranking", "no records", "the first level's order")
            return unranked(ids)
        scores = await self._scored(job, items, user)
        if scores is None:
            return unranked(ids)
        with job.stages.computing("sort"):
            return _sorted(items, scores, _lacking(ids, items), job.now_s)

    def _items(self, job: Job, ids: Sequence[int], found: Mapping[int, Any]) -> list[Item]:
        """What can be read of what was found, in the order of `ids`."""
        items: list[Item] = []
        unreadable = 0
        for item_id in ids:
            stored = found.get(item_id)
            if stored is None:
                continue
            try:
                item = from_json(stored)
            except ValueError:
                item = {}
            if item.get("item_id") == item_id:
                items.append(item)
            else:
                unreadable += 1
        if unreadable:
            job.degraded("records", f"{unreadable} are unreadable", "those items are shown unranked, at the end")
        old = sum(isinstance(item, OlderItem) for item in items)
        if old:
            job.degraded("records", f"{old} are of an older version", "what they lack counts as not known")
        return items

    async def _scored(self, job: Job, items: list[Item], user: User) -> list[float] | None:
        """Their scores; None when there are none, which the job then says."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if not self._pace.fits(len(items), job.until(RANKED_UNTIL) - began_s):
            job.degraded("ranking", "too little time left", "the first level's order")
            return None
        found = scored(self._model, items, user, job.now_s)
        job.stages.add("features", wall_ns=found.features_ns, cpu_ns=found.features_ns)
        job.stages.add("predict", wall_ns=found.predict_ns, cpu_ns=found.predict_ns)
        self._pace.took(len(items), loop.time() - began_s)
        return found.scores


def _lacking(ids: Sequence[int], items: Sequence[Item]) -> list[int]:
    if len(items) == len(ids):
        return []
    there = {item["item_id"] for item in items}
    return [item_id for item_id in ids if item_id not in there]


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


# --- How long a computation that nothing can interrupt will take: asked before, so that no answer comes too late.

# Weight of the newest measurement.
_NEWEST: Final = 0.2
# A pace that is too slow for every deadline is forgotten bit by bit, else nobody would ever measure again.
_FORGOTTEN: Final = 0.95


class Pace:
    """Seconds an item, learned; 0 until something was measured."""

    def __init__(self) -> None:
        self._item_s = 0.0

    def fits(self, items: int, left_s: float) -> bool:
        """This many items are expected to be done in the time that is left."""
        if left_s > 0 and self._item_s * items <= left_s:
            return True
        self._item_s *= _FORGOTTEN
        return False

    def took(self, items: int, seconds: float) -> None:
        """A measurement."""
        one_s = seconds / max(1, items)
        self._item_s += _NEWEST * (one_s - self._item_s) if self._item_s else one_s
