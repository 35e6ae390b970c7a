"""`native-features`: as `inline`, but JSON values go to native code as they are; CatBoost reads the matrix in place."""

from __future__ import annotations

import asyncio

import numpy as np

from feed import native
from feed.service.job import Job
from feed.stores.items import fetched, values
from feed.stores.slots import json_key
from feed.user import User

from .native_ranked import NativeRanked, lacking, say
from .plain import Plain, loaded
from .ranking import RANKED_UNTIL, RECORDS_UNTIL, Arrangeable, Given, unranked


class NativeFeatures(Plain):
    """One change against `inline`: no item is ever a dict, no row a list."""

    def __init__(self, given: Given) -> None:
        super().__init__(given, "json")

    async def ranked(self, job: Job, user: User, ids: list[int]) -> Arrangeable:
        """Fetch, features, predict, sort."""
        found = await fetched(job, self._client, values, json_key, ids, job.until(RECORDS_UNTIL))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if not self._pace.fits(len(found), job.until(RANKED_UNTIL) - began_s):
            job.degraded("ranking", "too little time left", "the first level's order")
            return unranked(ids)
        with job.stages.computing("features"):
            matrix = _features(ids, [found.get(item_id) for item_id in ids], user, job.now_s)
        with job.stages.computing("predict"):
            columns = np.asarray(matrix.columns)
            scores = loaded(self._model).predict(columns, thread_count=1) if len(matrix) else np.empty(0)
        with job.stages.computing("sort"):
            ranking = matrix.ranked(scores)
        self._pace.took(len(found), loop.time() - began_s)
        say(job, len(found) - len(matrix), ranking.older, len(matrix))
        if not len(matrix):
            return unranked(ids)
        return NativeRanked(ranking, lacking(ids, ids, memoryview(matrix.places).tolist()))


def _features(ids: list[int], stored: list[bytes | None], user: User, now_s: int) -> native.Matrix:
    """Of what is stored under its own id; another item's value is as good as none."""
    matrix = native.features(stored, user.packed(), now_s, form="json")
    places = np.asarray(matrix.places)
    strange = places[np.asarray(matrix.ids) != np.array(ids)[places]].tolist()
    if strange:
        own = [None if place in strange else value for place, value in enumerate(stored)]
        matrix = native.features(own, user.packed(), now_s, form="json")
    return matrix


def ranking(given: Given) -> NativeFeatures:
    """The variant."""
    return NativeFeatures(given)
