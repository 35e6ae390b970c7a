"""`greenlane`: packed records by hash-tagged MGETs; features, scores, order in one native call, placed by Greenlane.

An item is never a Python object: bytes from the sockets go to `native.rank`, and the feed's ids come out.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

import greenlane
from feed import native
from feed.model import ModelFiles, load_forest
from feed.service.job import Job, said
from feed.service.rules import Ranked
from feed.stores.fetch import FetchedItems
from feed.stores.items import BUCKETS
from feed.user import MODELS, User, most, unknown
from feed.variants.ranking import NativeRanked, lacking, say

from .ranking import RANKED_UNTIL, RECORDS_UNTIL, Given, unranked


class Packed:
    """The ranking path on packed records."""

    def __init__(self, given: Given) -> None:
        self._given = given

    async def start(self) -> None:
        """Connects, reads the model, and ranks nothing once: Greenlane imports what it needs at its first call."""
        self._items = FetchedItems(self._given.addresses.shards)
        # A store that is down costs ranking until it comes, not the service.
        with contextlib.suppress(OSError):
            await self._items.start()
        self._forest = load_forest(ModelFiles(Path(self._given.addresses.model)))
        nothing = native.Fetched(native.Asking([], [0] * BUCKETS, 1), [native.Replies(0)])
        await self._placed(nothing, unknown(0), 0)

    async def close(self) -> None:
        """Ends the connections."""
        self._items.close()

    def pids(self) -> list[int]:
        """No process of its own."""
        return []

    def candidates(self, job: Job, bodies: Mapping[str, bytes], user: User) -> list[int]:
        """As every variant, in native code."""
        ids, unreadable = native.candidates([bodies.get(model) for model in MODELS], user.seen, most(user))
        for model in unreadable:
            job.degraded("models", f"{MODELS[model]}: its answer is unreadable", "its candidates are missing")
        return ids

    def encoded(self, answer: Mapping[str, Any]) -> bytes:
        """The answer as JSON."""
        return orjson.dumps(answer)

    async def ranked(self, job: Job, user: User, ids: list[int]) -> Ranked | NativeRanked:
        """Fetch, then one native call."""
        values = await self._items.records(job, ids, job.until(RECORDS_UNTIL))
        if values is None:
            say(job, 0, 0, 0)
            return unranked(ids)
        async with job.stages.running("placement"):
            try:
                async with asyncio.timeout_at(job.until(RANKED_UNTIL)):
                    ranking, here = await job.stages.measured("placement", self._placed(values, user, job.now_s))
            except (TimeoutError, greenlane.Overloaded) as error:
                job.degraded("ranking", said(error), "the first level's order")
                return unranked(ids)
        _count(job, ranking, here)
        say(job, ranking.unreadable, ranking.older, len(ranking))
        if not len(ranking):
            return unranked(ids)
        rest = lacking(ids, ids, memoryview(ranking.places).tolist()) if len(ranking) < len(ids) else []
        return NativeRanked(ranking, rest)

    async def _placed(self, values: native.Fetched, user: User, now_s: int) -> tuple[native.Ranking, bool]:
        """The ranking, and whether this thread made it."""
        found, thread = await _ranked(values, user.packed(), now_s, self._forest)
        return found, thread == threading.get_ident()


@greenlane.placed
def _ranked(values: native.Fetched, user: bytes, now_s: int, forest: native.Forest) -> tuple[native.Ranking, int]:
    """What is placed: about 1 ms for 3,000 items, without the GIL. The ranking, and the thread that made it."""
    return native.rank(values, user, now_s, forest), threading.get_ident()


def _count(job: Job, ranking: native.Ranking, here: bool) -> None:
    """The native parts' time in stages of their own."""
    parts = {"features": ranking.features_ns, "predict": ranking.predict_ns, "sort": ranking.sort_ns}
    for stage, took_ns in parts.items():
        job.stages.add(stage, wall_ns=took_ns, cpu_ns=took_ns if here else 0, elsewhere_ns=0 if here else took_ns)
        job.stages.add("placement", wall_ns=-took_ns, cpu_ns=-took_ns if here else 0)


def ranking(given: Given) -> Packed:
    """The variant."""
    return Packed(given)
