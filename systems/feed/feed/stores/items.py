"""Reads items from the cluster with a stock redis-py client: shard by shard, one that is down costs its own items."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from feed.service.job import Job, said

from .slots import SHARDS, shard_of, slot

# redis-py's 100 are gone with 33 requests at once, three reads each: it refuses the next one. Beyond this many who asks
# has lost anyway.
MOST_CONNECTIONS = 1_000
# Keys of one task: about nine tasks for 3,000 items.
_CHUNK = 340

# Gives the values of these keys, in their order, None for what is not there.
Read = Callable[[RedisCluster, Sequence[str]], Coroutine[Any, Any, list[Any]]]


def connected(ports: Sequence[int]) -> RedisCluster:
    """A client of the cluster. It tries again once, for connections that a shard's restart has left dead; not more: the
    deadline is short, and the answer can do without a shard.
    """
    nodes = [ClusterNode("127.0.0.1", port) for port in ports]
    return RedisCluster(
        startup_nodes=nodes, retry=Retry(NoBackoff(), 1), socket_connect_timeout=1.0, max_connections=MOST_CONNECTIONS
    )  # fmt: skip


async def values(client: RedisCluster, keys: Sequence[str]) -> list[bytes | None]:
    """MGET of the keys, however many slots they are in."""
    return await client.mget_nonatomic(keys)


async def fetched(
    job: Job, client: RedisCluster, read: Read, key_of: Callable[[int], str], ids: Sequence[int], until_s: float
) -> dict[int, Any]:
    """What the store has of these ids, by id. Shards that fail, or are late at `until_s`, are named in the job."""
    asked: dict[asyncio.Task[list[Any]], tuple[int, Sequence[int]]] = {}
    async with job.stages.running("records"):
        with job.stages.computing("records"):
            for shard, chunk, keys in _chunks(ids, key_of):
                asked[job.stages.task("records", read(client, keys))] = shard, chunk
        if asked:
            _, late = await asyncio.wait(asked, timeout=max(0.0, until_s - asyncio.get_running_loop().time()))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
    with job.stages.computing("records"):
        found: dict[int, Any] = {}
        lost: dict[int, tuple[str, int]] = {}
        for task, (shard, chunk) in asked.items():
            error = TimeoutError() if task.cancelled() else task.exception()
            if error is None:
                found.update((item_id, value) for item_id, value in zip(chunk, task.result(), strict=True) if value)
            else:
                lost[shard] = said(error), lost.get(shard, ("", 0))[1] + len(chunk)
    for shard, (reason, count) in sorted(lost.items()):
        job.degraded("records", f"shard {shard}: {reason}", f"{count} items are shown unranked, at the end")
    return found


def _chunks(ids: Sequence[int], key_of: Callable[[int], str]) -> Iterator[tuple[int, Sequence[int], list[str]]]:
    """Shard, ids and keys of each task."""
    by_shard: list[list[int]] = [[] for _ in range(SHARDS)]
    for item_id in ids:
        by_shard[shard_of(slot(key_of(item_id).encode()))].append(item_id)
    for shard, mine in enumerate(by_shard):
        for begin in range(0, len(mine), _CHUNK):
            chunk = mine[begin : begin + _CHUNK]
            yield shard, chunk, [key_of(item_id) for item_id in chunk]
