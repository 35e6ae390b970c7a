"""One request for a feed: who asks, until when an answer is of use, what it took, what went wrong."""

from __future__ import annotations

import asyncio
import secrets
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from redis.asyncio import Redis
from redis.exceptions import RedisError

from feed.service.stages import Stages
from feed.stores.history import KEPT_S, feed_key


@dataclass(frozen=True)
class Problem:
    """Why an answer is less than it could be.

    Args:
        part: history, models, records, ranking, paging.
        reason: what happened.
        effect: what the answer lacks for it.
    """

    part: str
    reason: str
    effect: str


@dataclass
class Job:
    """One request.

    Args:
        user_id: for whom.
        now_s: the present, Unix time.
        deadline_s: seconds from `began_s` within which the answer is of use.
        began_s: on the loop's clock.
        stages: where its time goes.
        problems: what went wrong so far; the answer says it.
        wants_ranked: somebody wants to know `ranked`.
        ranked: the ids before the business rules.
        path_ns: CPU of this process from the first to the last step of the ranking path, the loop's own included. Other
            requests' too: it means something when requests come one at a time.
        bytes_moved: between the service and processes that compute for it, both ways, as far as somebody counts them.
    """

    user_id: int
    now_s: int
    deadline_s: float
    began_s: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    stages: Stages = field(default_factory=Stages)
    problems: list[Problem] = field(default_factory=list)
    wants_ranked: bool = False
    ranked: Sequence[int] = ()
    path_ns: int = 0
    bytes_moved: int = 0

    def until(self, share: float) -> float:
        """The loop's time at which this share of the deadline is used up: for `asyncio.timeout_at`."""
        return self.began_s + share * self.deadline_s

    def degraded(self, part: str, reason: str, effect: str) -> None:
        """Notes a problem."""
        self.problems.append(Problem(part, reason, effect))


def said(error: BaseException) -> str:
    """An error in words that stand in an answer."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0][:200]


# --- Ranked feeds kept for users who scroll on: in the history store, 4 bytes an item, for any process to read.


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
