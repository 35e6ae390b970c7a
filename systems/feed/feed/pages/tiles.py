"""What a tile of the feed shows of an item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import RedisCluster

from feed.record import CATEGORIES, Item, from_json
from feed.service.job import Job
from feed.stores.items import fetched, values
from feed.stores.slots import json_key

# Ids of one question for tiles.
MOST: Final = 200
# Share of the deadline after which a tile is shown without its item.
_UNTIL: Final = 0.9
_SHOWN: Final = (
    "title", "category", "price", "old_price", "city", "images", "photo_quality", "seller_rating", "seller_reviews",
    "is_company", "has_delivery", "topics",
)  # fmt: skip


async def tiles(job: Job, client: RedisCluster, ids: Sequence[int]) -> list[dict[str, Any] | None]:
    """A tile for each id, in this order; None for an item that the store does not give now. The job says why."""
    found = await fetched(job, client, values, json_key, ids, job.until(_UNTIL))
    return [_tile(found.get(item_id), job.now_s) for item_id in ids]


def _tile(stored: bytes | None, now_s: int) -> dict[str, Any] | None:
    if stored is None:
        return None
    try:
        return tile(from_json(stored), now_s)
    except (ValueError, KeyError, TypeError):
        return None


def tile(item: Item, now_s: int) -> dict[str, Any]:
    """The fields that are shown, and what follows from several.

    Args:
        item: with its title as text.
        now_s: Unix time: what a boost and an age are looked at from.
    """
    shown = {name: item[name] for name in _SHOWN}
    in_force = item["boost"] if (item["boost_until_s"] or 0) > now_s else 0
    number = CATEGORIES.index(item["category"])
    more = {"id": item["item_id"], "boost": in_force, "age_s": max(0, now_s - item["created_s"])}
    return shown | more | {"category_number": number, "kind": item["subcategory"] % 12}
