"""The feed of a user, from question to answer: history, first-level models, filter, ranking, business rules."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aiohttp
from redis.asyncio import Redis
from redis.exceptions import RedisError

from feed.stores.history import interests_key, seen_key, sellers_key
from feed.user import MODELS, User, are_ids, unknown
from feed.variants.ranking import Arrangeable, Ranking, unranked

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
        user = await user_of(job, self.store)
        bodies = await self.models.answers(job, user)
        with job.stages.computing("filter"):
            ids = self.ranking.candidates(job, bodies, user)
        if not ids:
            job.degraded("models", "no model named a candidate", "the feed is empty")
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


# --- First group of I/O: what the history store knows of the user.

# Share of the deadline after which we go on without.
HISTORY_UNTIL = 0.15


async def user_of(job: Job, store: Redis) -> User:
    """The user; an unknown one without a history or when the store does not answer, which the job then says."""
    async with job.stages.running("history"):
        try:
            async with asyncio.timeout_at(job.until(HISTORY_UNTIL)):
                values = await asyncio.gather(
                    *(
                        job.stages.task("history", _get(store, key(job.user_id)))
                        for key in (interests_key, seen_key, sellers_key)
                    )
                )
        except (RedisError, OSError, TimeoutError) as error:
            job.degraded("history", said(error), "the feed of an unknown user")
            return unknown(job.user_id)
    with job.stages.computing("history"):
        return _user(job, *values)


def _user(job: Job, interests: bytes | None, seen: bytes | None, sellers: bytes | None) -> User:
    if interests is None:
        job.degraded("history", "the user has no history", "the feed of an unknown user")
        return unknown(job.user_id)
    try:
        user = User(**json.loads(interests), seen=json.loads(seen or b"[]"), sellers=json.loads(sellers or b"[]"))
        # What can be packed is as features want it.
        if are_ids(user.seen) and user.packed():
            return user
        raise ValueError("seen: expected ids of items")
    except (TypeError, ValueError, AttributeError, LookupError, struct.error):
        job.degraded("history", "the stored user is unreadable", "the feed of an unknown user")
        return unknown(job.user_id)


async def _get(store: Redis, key: str) -> bytes | None:
    value = await store.get(key)
    assert not isinstance(value, str)
    return value


# --- Second group of I/O: the four first-level models, asked at the same time.

# Share of the deadline after which we go on with those that have answered.
FIRST_LEVEL_UNTIL = 0.45


class FirstLevel:
    """Asks the models.

    Args:
        session: HTTP client.
        models: base URL of each.
    """

    def __init__(self, session: aiohttp.ClientSession, models: Mapping[str, str]) -> None:
        self._session = session
        self._models = models
        # What `popular` said last, to anybody: better than an empty feed.
        self._spare = b""

    async def answers(self, job: Job, user: User) -> dict[str, bytes]:
        """Each model's answer, JSON; who did not answer in time is missing, and the job says so."""
        with job.stages.computing("models"):
            body = user.to_json()
        async with job.stages.running("models"):
            asked = {model: job.stages.task("models", self._asked(model, user, body)) for model in MODELS}
            _, late = await asyncio.wait(asked.values(), timeout=max(0.0, job.until(FIRST_LEVEL_UNTIL) - _now()))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        answers = {
            model: task.result() for model, task in asked.items() if not task.cancelled() and not task.exception()
        }
        for model, task in asked.items():
            if model not in answers:
                job.degraded("models", f"{model}: {_reason(task)}", "its candidates are missing")
        return self._spared(job, answers)

    def _spared(self, job: Job, answers: dict[str, bytes]) -> dict[str, bytes]:
        if "popular" in answers:
            self._spare = answers["popular"]
        if answers or not self._spare:
            return answers
        job.degraded("models", "no model answered", "the items that were popular a moment ago")
        return {"popular": self._spare}

    async def _asked(self, model: str, user: User, body: bytes) -> bytes:
        async with self._session.post(f"{self._models[model]}/candidates/{user.user_id}", data=body) as response:
            if response.status != 200:
                raise aiohttp.ClientError(f"status {response.status}")
            return await response.read()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _reason(task: asyncio.Task[bytes]) -> str:
    error = None if task.cancelled() else task.exception()
    return said(error or TimeoutError())
