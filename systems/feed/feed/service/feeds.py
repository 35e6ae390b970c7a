"""The feed of a user, from question to answer: history, first-level models, filter, ranking, business rules."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from feed.variants.ranking import Arrangeable, Ranking, unranked

from . import history
from .first_level import FirstLevel
from .job import Job, said

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Feeds:
    """What makes feeds.

    Args:
        store: the history store.
        models: the first level.
        ranking: the variant.
    """

    store: Redis
    models: FirstLevel
    ranking: Ranking

    async def feed(self, job: Job) -> Sequence[int]:
        """Ids in the order in which they are shown; what it lacks the job says. Never raises for a part's failure."""
        user = await history.user_of(job, self.store)
        bodies = await self.models.answers(job, user)
        with job.stages.computing("filter"):
            ids = self.ranking.candidates(job, bodies, user)
        if not ids:
            job.degraded("models", "nobody named a candidate", "the feed is empty")
            return []
        ranked: Arrangeable
        began_ns = time.process_time_ns()
        try:
            ranked = await self.ranking.ranked(job, user, ids)
        except Exception as error:
            _log.exception("ranking failed")
            job.degraded("ranking", said(error), "the first level's order")
            ranked = unranked(ids)
        job.path_ns += time.process_time_ns() - began_ns
        with job.stages.computing("rules"):
            shown = ranked.arranged()
        if job.wants_ranked:
            job.ranked = ranked.ids
        return shown
