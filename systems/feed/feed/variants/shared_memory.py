"""`shared-memory`: as `pool`, in Greenlane's process workers: JSON goes there as stored, columns come back.

The step that Avito estimated and did not take. Items are parsed where they are needed: the loop sees bytes only, and
neither items nor scores are pickled.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

import greenlane
from feed.record import CATEGORIES, Item, OlderItem, from_json
from feed.service.job import Job, said
from feed.service.rules import Ranked
from feed.stores.items import fetched, json_key, values
from feed.user import User, unknown
from greenlane_tools.lab.processes import descendants

from .plain import Plain, loaded, scored
from .ranking import RANKED_UNTIL, RECORDS_UNTIL, Given, unranked


@dataclass(frozen=True)
class Best:
    """What a worker gives back: readable items, best first.

    Args:
        columns: (4, n) uint32: ids, boosts in force, sellers, categories as indices.
        unreadable, older: how many of the given.
        decode_ns, features_ns, predict_ns, sort_ns: CPU of the worker.
    """

    columns: NDArray[np.uint32]
    unreadable: int
    older: int
    decode_ns: int
    features_ns: int
    predict_ns: int
    sort_ns: int


@greenlane.placed(placement="process")
def best(model: str, text: memoryview, ends: NDArray[np.int64], user: User, now_s: int) -> Best:
    """Runs in a worker: parses the items that stand one after the other in `text`, scores and sorts them."""
    began_ns = time.thread_time_ns()
    begins = [0, *ends.tolist()]
    items = [item for begin, end in pairwise(begins) if (item := _item(text[begin:end]))]
    older = sum(isinstance(item, OlderItem) for item in items)
    decoded_ns = time.thread_time_ns()
    loaded(model)
    found = scored(model, items, user, now_s)
    scored_ns = time.thread_time_ns()
    columns = np.array([_column(item, now_s) for item in items], np.uint32).reshape(-1, 4)
    columns = columns[np.lexsort((columns[:, 0], -np.array(found.scores)))].T.copy()
    sort_ns = time.thread_time_ns() - scored_ns
    unreadable = len(ends) - len(items)
    return Best(
        columns, unreadable, older, decoded_ns - began_ns, found.features_ns, found.predict_ns, sort_ns
    )  # fmt: skip


def _item(text: memoryview) -> Item | None:
    try:
        item = from_json(bytes(text))
    except ValueError:
        return None
    return item if item.get("item_id") else None


def _column(item: Item, now_s: int) -> tuple[int, int, int, int]:
    boost = item["boost"] if (item["boost_until_s"] or 0) > now_s else 0
    return item["item_id"], boost, item["seller_id"], CATEGORIES.index(item["category"])


class SharedMemory(Plain):
    """The store and its connections are `Plain`'s; the rest is done by `given.workers` processes."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        # As an operator sets it; read when the first call is placed.
        os.environ["GREENLANE_PROCESS_WORKERS"] = str(given.workers)

    async def start(self) -> None:
        """Connects; every worker loads the model."""
        self._connect()
        # A worker has one call at a time: this many at once reach every one of them.
        empty = memoryview(b""), np.empty(0, np.int64), unknown(0), 0
        await asyncio.gather(*(self._best(*empty) for _ in range(self._given.workers)))

    def pids(self) -> list[int]:
        """The workers: nobody else is started here."""
        return descendants(os.getpid())[1:]

    async def ranked(self, job: Job, user: User, ids: list[int]) -> Ranked:
        """Fetch; then bytes to a worker, columns back."""
        found = await fetched(job, self._client, values, json_key, ids, job.until(RECORDS_UNTIL))
        with job.stages.computing("transport"):
            stored = [found[item_id] for item_id in ids if item_id in found]
            text = b"".join(stored)
            ends = np.cumsum([len(one) for one in stored], dtype=np.int64)
        async with job.stages.running("transport"):
            try:
                async with asyncio.timeout_at(job.until(RANKED_UNTIL)):
                    asked = self._best(memoryview(text), ends, replace(user, seen=[]), job.now_s)
                    result = await job.stages.measured("transport", asked)
            except (TimeoutError, greenlane.GreenlaneError) as error:
                job.degraded("ranking", said(error), "the first level's order")
                return unranked(ids)
        job.bytes_moved += len(text) + ends.nbytes + result.columns.nbytes
        _say(job, result)
        with job.stages.computing("sort"):
            return _with_the_rest(result, ids)

    async def _best(self, text: memoryview, ends: NDArray[np.int64], user: User, now_s: int) -> Best:
        found: Best = await best(self._model, text, ends, user, now_s)
        return found


def _say(job: Job, result: Best) -> None:
    """The worker's time in stages of its own, and what the records lack."""
    parts = ("decode", "features", "predict", "sort")
    for stage, took_ns in zip(
        parts, (result.decode_ns, result.features_ns, result.predict_ns, result.sort_ns), strict=True
    ):
        job.stages.add(stage, wall_ns=took_ns, elsewhere_ns=took_ns)
        job.stages.add("transport", wall_ns=-took_ns)
    if result.unreadable:
        effect = "those items are shown unranked, at the end"
        job.degraded("records", f"{result.unreadable} are unreadable", effect)
    if result.older:
        job.degraded("records", f"{result.older} are of an older version", "what they lack counts as not known")
    if not result.columns.shape[1]:
        job.degraded("ranking", "no records", "the first level's order")


def _with_the_rest(result: Best, ids: Sequence[int]) -> Ranked:
    """The ranked list, and behind it what was not ranked."""
    ranked, boosts, sellers, categories = result.columns.tolist()
    there = set(ranked)
    lacking = [item_id for item_id in ids if item_id not in there] if len(ranked) < len(ids) else []
    nothing = [0] * len(lacking)
    return Ranked(ranked + lacking, boosts + nothing, sellers + nothing, categories + nothing)


def ranking(given: Given) -> SharedMemory:
    """The variant."""
    return SharedMemory(given)
