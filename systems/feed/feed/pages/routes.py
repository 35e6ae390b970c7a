"""The pages' routes.

GET /                    the feed as its user sees it: `?user=7`
GET /tiles?ids=1,2,3     what its tiles show: {"tiles": [{...} or null], "degraded": [...]}
GET /stages              where the time of requests goes, live
GET /stages/live?after=0 the requests after this number, with their stages
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from redis.asyncio import RedisCluster

from feed.service.job import Job
from feed.site import Addresses
from feed.stores.items import connected

from .live import Live
from .tiles import MOST, tiles

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
