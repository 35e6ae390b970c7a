"""The pages' routes.

GET /                    the feed as its user sees it: `?user=7`
GET /tiles?ids=1,2,3     what its tiles show: {"tiles": [{...} or null], "degraded": [...]}
GET /stages              where the time of requests goes, live
GET /stages/live?after=0 the requests after this number, with their stages
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from redis.asyncio import RedisCluster

from feed.record import CATEGORIES, Item, from_json
from feed.service.job import Job
from feed.site import Addresses
from feed.stores.items import connected, fetched, json_key, values

_HERE: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)


class Pages:
    """The routes of one service.

    Args:
        addresses: of the site.
        variant: as the pages call it.
        now_s: the present.
        deadline_ms: until when tiles are waited for.
    """

    def __init__(self, addresses: Addresses, variant: str, now_s: int, deadline_ms: float) -> None:
        self.live = Live()
        self._addresses = addresses
        self._variant = variant
        self._now_s = now_s
        self._deadline_ms = deadline_ms
        self._client: RedisCluster

    def add_to(self, app: web.Application) -> None:
        """Adds the routes, and a client of the item store, which connects at the first question."""
        app.cleanup_ctx.append(self._running)
        app.router.add_get("/", self._feed)
        app.router.add_get("/tiles", self._tiles)
        app.router.add_get("/stages", self._stages)
        app.router.add_get("/stages/live", self._since)

    async def _running(self, app: web.Application) -> AsyncIterator[None]:
        self._client = connected(self._addresses.shards)
        yield
        await self._client.aclose()

    async def _feed(self, request: web.Request) -> web.Response:
        return self._page("feed")

    async def _stages(self, request: web.Request) -> web.Response:
        return self._page("stages")

    def _page(self, name: str) -> web.Response:
        known = {"variant": self._variant, "users": self._addresses.users, "deadlineMs": self._deadline_ms}
        text = page(name).replace("@known@", escape(json.dumps(known)))
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _tiles(self, request: web.Request) -> web.Response:
        text = request.query.get("ids", "")
        try:
            ids = [int(one) for one in text.split(",")]
        except ValueError:
            ids = []
        if not 0 < len(ids) <= MOST or min(ids) < 0:
            raise _refused("asking for tiles", "ids", text, f"1 to {MOST} ids, with commas between them")
        job = Job(0, self._now_s, self._deadline_ms / 1000)
        try:
            found = await tiles(job, self._client, ids)
        except Exception as error:
            # Nobody listens: the client cannot even tell which shard an item is in.
            job.degraded("records", f"{type(error).__name__}: {error}", "tiles without their items")
            found = [None] * len(ids)
        return web.json_response({"tiles": found, "degraded": [asdict(problem) for problem in job.problems]})

    async def _since(self, request: web.Request) -> web.Response:
        text = request.query.get("after", "0")
        if not text.isdecimal() or len(text) > 18:
            raise _refused("asking for requests", "after", text, "a whole number from 0")
        return web.json_response(self.live.since(int(text)))


@cache
def page(name: str) -> str:
    """A page as one file; `@known@` stands where the service says what it knows."""
    parts = {part: (_HERE / part).read_text("utf-8") for part in ("common.css", f"{name}.css", f"{name}.js")}
    text = (_HERE / f"{name}.html").read_text("utf-8")
    style = parts["common.css"] + parts[f"{name}.css"]
    return text.replace("@style@", style).replace("@script@", parts[f"{name}.js"])


def _refused(what: str, name: str, value: Any, rule: str) -> web.HTTPBadRequest:
    said = {"error": f"{what}: {name}={value[:200]!r}, expected {rule}"}
    return web.HTTPBadRequest(text=json.dumps(said), content_type="application/json")


# --- The last requests with their stages, kept while somebody looks at them.

# This many requests are kept; a page that asks every half a second misses none below 1,000 per s.
_KEPT: Final = 500
# Nothing is kept when nobody has asked for so long: what is measured shall not pay for pages.
_WATCHED_S: Final = 5.0


@dataclass(frozen=True)
class Finished:
    """A request that was answered.

    Args:
        number: 1 for the first one that was kept.
        user: for whom.
        began_s: on the loop's clock.
        wall_ms: from its begin to its answer.
        coroutines: tasks that it took.
        stages: `Stage.row` by name, in the order in which they began.
        degraded: the parts that failed.
    """

    number: int
    user: int
    began_s: float
    wall_ms: float
    coroutines: int
    stages: Mapping[str, Mapping[str, float]]
    degraded: list[str]


class Live:
    """Keeps requests while it is watched; else a request costs it a comparison.

    Args:
        clock: seconds; None = the running loop's, on which jobs begin.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or _loops
        self._finished: deque[Finished] = deque(maxlen=_KEPT)
        self._number = 0
        self._watched_until_s = 0.0

    def count(self, job: Job) -> None:
        """A request was answered."""
        now_s = self._clock()
        if now_s > self._watched_until_s:
            return
        self._number += 1
        wall_ms = round(1e3 * (now_s - job.began_s), 3)
        parts = [problem.part for problem in job.problems]
        rows = job.stages.rows()
        self._finished.append(Finished(self._number, job.user_id, job.began_s, wall_ms, job.stages.tasks, rows, parts))

    def since(self, number: int) -> dict[str, Any]:
        """The requests after this number, oldest first; from now on requests are kept for a while."""
        now_s = self._clock()
        self._watched_until_s = now_s + _WATCHED_S
        requests = [
            {
                "number": one.number, "user": one.user, "ago_s": round(now_s - one.began_s, 3), "wall_ms": one.wall_ms,
                "coroutines": one.coroutines, "stages": one.stages, "degraded": one.degraded,
            }
            for one in self._finished
            if one.number > number
        ]  # fmt: skip
        return {"number": self._number, "requests": requests}


def _loops() -> float:
    return asyncio.get_running_loop().time()


# --- What a tile of the feed shows of an item.

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
