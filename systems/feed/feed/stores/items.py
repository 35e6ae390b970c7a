"""Reads items from the cluster with a stock redis-py client: shard by shard, one that is down costs its own items."""

from __future__ import annotations

import asyncio
from binascii import crc_hqx
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from feed.service.job import Job, said

# --- Which shard keeps which key: Redis Cluster's hash slots, shared out evenly.


SLOTS: Final = 16_384
SHARDS: Final = 3
# The first slot of each shard, and one past the last.
BOUNDS: Final = tuple(SLOTS * shard // SHARDS for shard in range(SHARDS + 1))
# Packed records lie in this many buckets: keys of a bucket share a slot, so one MGET may ask for many. A bucket moves
# between shards as a whole; a store of a terabyte would take 256 to 1024.
BUCKETS: Final = 48


def slot(key: bytes) -> int:
    """The key's slot: CRC-16 (XMODEM) of what stands between the first { and the next }, else of all of it."""
    begin = key.find(b"{")
    end = key.find(b"}", begin + 1) if begin >= 0 else -1
    return crc_hqx(key[begin + 1 : end] if end > begin + 1 else key, 0) % SLOTS


def shard_of(number: int) -> int:
    """The shard of a slot."""
    return next(shard for shard in range(SHARDS) if number < BOUNDS[shard + 1])


def json_key(item_id: int) -> str:
    """Where an item's JSON value lies."""
    return f"json:{item_id}"


def packed_key(item_id: int) -> str:
    """Where an item's packed record lies: the bucket is its hash tag."""
    return f"{{{item_id % BUCKETS}}}{item_id}"


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
