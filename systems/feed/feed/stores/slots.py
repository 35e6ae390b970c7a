"""Which shard keeps which key: Redis Cluster's hash slots, shared out evenly."""

from __future__ import annotations

from binascii import crc_hqx
from typing import Final

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
