"""First group of I/O: what the history store knows of the user."""

from __future__ import annotations

import asyncio
import json
import struct

from redis.asyncio import Redis
from redis.exceptions import RedisError

from feed.candidates import are_ids
from feed.stores.history import interests_key, seen_key, sellers_key
from feed.user import User, unknown

from .job import Job, said

# Share of the deadline after which we go on without.
UNTIL = 0.15


async def user_of(job: Job, store: Redis) -> User:
    """The user; an unknown one without a history or when the store does not answer, which the job then says."""
    async with job.stages.running("history"):
        try:
            async with asyncio.timeout_at(job.until(UNTIL)):
                values = await asyncio.gather(
                    *(
                        job.stages.task("history", _get(store, key(job.user_id)))
                        for key in (interests_key, seen_key, sellers_key)
                    )
                )
        except (RedisError, OSError, TimeoutError) as error:
            job.degraded("history", said(error), "the feed of somebody whom nobody knows")
            return unknown(job.user_id)
    with job.stages.computing("history"):
        return _user(job, *values)


def _user(job: Job, interests: bytes | None, seen: bytes | None, sellers: bytes | None) -> User:
    if interests is None:
        job.degraded("history", "the user has no history", "the feed of somebody whom nobody knows")
        return unknown(job.user_id)
    try:
        user = User(**json.loads(interests), seen=json.loads(seen or b"[]"), sellers=json.loads(sellers or b"[]"))
        # What can be packed is as features want it.
        if are_ids(user.seen) and user.packed():
            return user
        raise ValueError("seen: expected ids of items")
    except (TypeError, ValueError, AttributeError, LookupError, struct.error):
        job.degraded("history", "what is stored of the user is unreadable", "the feed of somebody whom nobody knows")
        return unknown(job.user_id)


async def _get(store: Redis, key: str) -> bytes | None:
    value = await store.get(key)
    assert not isinstance(value, str)
    return value
