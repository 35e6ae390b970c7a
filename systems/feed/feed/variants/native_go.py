"""`native-go`: as `inline`, but the features are a Go library's, through ctypes, as in the article.

A Go runtime does not survive a fork and takes over signals, so it lives in spawned workers; JSON values travel to them
as one piece of bytes, columns come back.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import time
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feed import go_features, native
from feed.go_features import Matrix, Values
from feed.native import GO_LIBRARY, build
from feed.service.job import Job, said
from feed.stores.items import fetched, json_key, values
from feed.user import User, unknown
from feed.variants.ranking import NativeRanked, lacking, say
from greenlane_tools.lab.processes import die_with_parent

from .plain import Plain, loaded
from .ranking import RANKED_UNTIL, RECORDS_UNTIL, Arrangeable, Given, unranked


@dataclass(frozen=True)
class GoScored:
    """What a worker gives back: the matrix without its features, scores of its rows, CPU ns."""

    found: Matrix
    scores: NDArray[np.float64]
    features_ns: int
    predict_ns: int


class NativeGo(Plain):
    """Spawned workers with the Go library."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        build(GO_LIBRARY)
        self._pool = self._made()

    async def start(self) -> None:
        """Starts every worker, each with library and model loaded."""
        await super().start()
        loop = asyncio.get_running_loop()
        nothing = go_features.joined([]), unknown(0).packed(), 0
        await asyncio.gather(
            *(loop.run_in_executor(self._pool, go_scored, self._model, *nothing) for _ in range(self._given.workers))
        )

    async def close(self) -> None:
        """Ends connections and workers."""
        await super().close()
        self._pool.shutdown(cancel_futures=True)

    def pids(self) -> list[int]:
        """The workers."""
        return [process.pid for process in (self._pool._processes or {}).values() if process.pid]

    async def ranked(self, job: Job, user: User, ids: list[int]) -> Arrangeable:
        """Fetch here; features and predict in a worker; sort here."""
        stored = await fetched(job, self._client, values, json_key, ids, job.until(RECORDS_UNTIL))
        with job.stages.computing("transport"):
            sent = go_features.joined([stored.get(item_id) for item_id in ids])
        job.bytes_moved += len(sent.blob) + sent.ends.nbytes
        async with job.stages.running("executor"):
            try:
                async with asyncio.timeout_at(job.until(RANKED_UNTIL)):
                    scored = await job.stages.measured("executor", self._placed(sent, user, job.now_s))
            except (BrokenExecutor, TimeoutError) as error:
                if isinstance(error, BrokenExecutor):
                    self._pool = self._made()
                job.degraded("ranking", said(error), "the first level's order")
                return unranked(ids)
        self._count(job, scored)
        with job.stages.computing("sort"):
            return _sorted(job, scored, ids, len(stored))

    async def _placed(self, sent: Values, user: User, now_s: int) -> GoScored:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, go_scored, self._model, sent, user.packed(), now_s)

    def _count(self, job: Job, scored: GoScored) -> None:
        """The workers' part of the wall time has stages of its own."""
        for stage, took_ns in {"features": scored.features_ns, "predict": scored.predict_ns}.items():
            job.stages.add("executor", wall_ns=-took_ns)
            job.stages.add(stage, wall_ns=took_ns, elsewhere_ns=took_ns)
        job.bytes_moved += scored.scores.nbytes + 6 * scored.found.ids.nbytes

    def _made(self) -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._given.workers, spawn, initializer=die_with_parent, initargs=(signal.SIGKILL,))


def go_scored(model: str, sent: Values, user: bytes, now_s: int) -> GoScored:
    """In a worker: features in Go, CatBoost's predict. Process CPU: Go computes in a thread of its choice."""
    began_ns = time.process_time_ns()
    matrix = go_features.features(sent, user, now_s)
    between_ns = time.process_time_ns()
    forest = loaded(model)
    scores = forest.predict(matrix.columns, thread_count=1) if len(matrix.ids) else np.empty(0)
    found = Matrix(np.empty((0, 0), np.float32), *(getattr(matrix, name) for name in _KEPT))
    return GoScored(found, scores, between_ns - began_ns, time.process_time_ns() - between_ns)


_KEPT = ("ids", "sellers", "categories", "boosts", "older", "places")


def _sorted(job: Job, scored: GoScored, ids: list[int], stored: int) -> Arrangeable:
    found = scored.found
    # Another item's value is as good as none.
    own = found.ids == np.array(ids, np.uint32)[found.places]
    say(job, stored - int(own.sum()), int(found.older[own].sum()), int(own.sum()))
    if not own.any():
        return unranked(ids)
    columns = {"sellers": found.sellers[own], "categories": found.categories[own], "boosts": found.boosts[own]}
    ranking = native.ranked(found.ids[own], scored.scores[own], **columns)
    return NativeRanked(ranking, lacking(ids, ids, found.places[own].tolist()))


def ranking(given: Given) -> NativeGo:
    """The variant."""
    return NativeGo(given)
