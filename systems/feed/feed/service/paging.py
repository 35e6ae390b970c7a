"""Ranked feeds kept for users who scroll on: in the history store, 4 bytes an item, for any process to read."""

from __future__ import annotations

import asyncio
import secrets
from array import array
from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import RedisError

from feed.stores.history import KEPT_S, feed_key

from .job import Job, said

# Shares of the deadline: until then at the latest, and no longer than so.
_UNTIL, _AT_MOST = 0.97, 0.10


def token_of(user_id: int) -> str:
    """A new feed's token; it tells whose feed it is."""
    return f"{user_id}-{secrets.token_hex(6)}"


def user_of(token: str) -> int:
    """Whose feed a token means.

    Raises:
        ValueError: it is no token.
    """
    return int(token.partition("-")[0])


async def keep(job: Job, store: Redis, token: str, ids: Sequence[int]) -> bool:
    """Keeps a feed for KEPT_S; False when the store does not take it, which the job says."""
    async with job.stages.running("paging"):
        try:
            async with asyncio.timeout_at(_patience(job)):
                await job.stages.task("paging", _set(store, token, array("I", ids).tobytes()))
        except (RedisError, OSError, TimeoutError) as error:
            job.degraded("paging", said(error), "no further pages of this feed")
            return False
    return True


async def kept(job: Job, store: Redis, token: str) -> list[int] | None:
    """A kept feed's ids; None when it is gone or the store does not answer, which the job says."""
    async with job.stages.running("paging"):
        try:
            async with asyncio.timeout_at(_patience(job)):
                value: bytes | None = await job.stages.measured("paging", _get(store, token))
        except (RedisError, OSError, TimeoutError) as error:
            job.degraded("paging", said(error), "the feed is computed again: its order may differ")
            return None
    if value is None:
        job.degraded("paging", "this feed is no longer kept", "the feed is computed again: its order may differ")
        return None
    ids = array("I")
    ids.frombytes(value[: len(value) - len(value) % ids.itemsize])
    return ids.tolist()


def _patience(job: Job) -> float:
    return min(job.until(_UNTIL), asyncio.get_running_loop().time() + _AT_MOST * job.deadline_s)


async def _set(store: Redis, token: str, value: bytes) -> None:
    await store.set(feed_key(token), value, ex=KEPT_S)


async def _get(store: Redis, token: str) -> bytes | None:
    value = await store.get(feed_key(token))
    assert not isinstance(value, str)
    return value
