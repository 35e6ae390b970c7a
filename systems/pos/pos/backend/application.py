"""The order backend over HTTP.

POST /orders             {"merchant": "taco", "order": "A-17"} -> 202 as soon as the broker has it; without an id
                         it gets one; the same id again is the same order; 503 the broker does not have it;
                         with "within_s": 30 it is refunded in place of being sent later than that
GET  /orders/<order>     its state: waiting, running, retrying, done, refused, dead, cancelled, refunded
POST /orders/<order>/cancel   202 it is not sent, unless its merchant is being called already; 409 it has ended
GET  /live?after=0       what flows to each merchant, and what happened since (for the page)
POST /load               {"per_s": 20}: orders that the backend makes up from now on
POST /diversion          {"share": 0.3}: this share of the orders goes to the other worker from now on
POST /merchants/<name>   a merchant's law, handed to it
GET  /                   the page
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from greenlane.errors import GreenlaneError
from greenlane_work.diversion import open_place, set_share
from pos.contenders import look_at_all, together
from pos.journal import Event, Follower
from pos.queueing import DIVERTED, QUEUE
from pos.surroundings import Surroundings

from .orders import ENDED, Orders
from .publisher import MOST_PER_S, Demand, NotTaken, Publisher

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FOLLOW_S: Final = 0.05
_LONGEST_S: Final = 86_400.0


class Backend:
    """The service.

    Args:
        around: where everything is.
        per_s: orders that it makes up at first.
        publisher: gives orders to the broker.
        workers: folder of their control sockets; None = no control sockets.
    """

    def __init__(self, around: Surroundings, per_s: float, publisher: Publisher, workers: Path | None) -> None:
        self._around = around
        self._publisher = publisher
        self._orders = Orders()
        self._rollout = Rollout(around.diversion)
        self._watch = Watch(workers)
        self._laws: dict[str, Any] = {}
        self._placing: dict[str, asyncio.Future[None]] = {}
        self._demand = Demand(self._accepted, around.names(), per_s, f"made-{uuid.uuid4().hex[:6]}")

    def application(self) -> web.Application:
        """Its routes."""
        app = web.Application(client_max_size=1 << 16, middlewares=[_said])
        app.router.add_post("/orders", self._order)
        app.router.add_get("/orders/{order}", self._state)
        app.router.add_post("/orders/{order}/cancel", self._cancel)
        app.router.add_get("/live", self._live)
        app.router.add_post("/load", self._load)
        app.router.add_post("/diversion", self._divert)
        app.router.add_post("/merchants/{name}", self._law)
        app.router.add_get("/", self._page)
        app.cleanup_ctx.append(self._running)
        return app

    async def _running(self, app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(5)) as self._client:
            tasks = [asyncio.create_task(one) for one in self._always()]
            yield
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._publisher.close()

    def _always(self) -> list[Coroutine[Any, Any, None]]:
        return [self._follow(), self._demand.run(), self._learn_laws(), self._watch.run(), self._rollout.run()]

    async def _follow(self) -> None:
        follower, own = Follower(self._around.journal), os.getpid()
        try:
            while True:
                # What this process has published it knows already.
                new = (one for one in follower.new() if one.event != Event.PUBLISHED or one.pid != own)
                self._orders.take(new)
                await asyncio.sleep(_FOLLOW_S)
        finally:
            follower.close()

    async def _learn_laws(self) -> None:
        """Merchants' laws at the start; later changes come through here, or are not shown."""
        for name, url in self._around.merchants.items():
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with self._client.get(f"{url}/law") as answer:
                    self._laws[name] = await answer.json()

    async def _order(self, request: web.Request) -> web.Response:
        given = await _object(request, "place an order")
        merchant, order = given.get("merchant"), given.get("order", uuid.uuid4().hex)
        if not isinstance(merchant, str) or merchant not in self._around.merchants:
            raise Wrong("place an order", "merchant", merchant, f"one of {', '.join(self._around.names())}")
        if not isinstance(order, str) or not _ID.fullmatch(order):
            raise Wrong("place an order", "order", order, f"an id like {_ID.pattern}")
        known = self._orders.known(order)
        if known is not None and known.merchant != merchant:
            raise Wrong("place an order", "merchant", merchant, f"{known.merchant!r}, which order {order!r} went to")
        within_s = given.get("within_s", 0)
        if isinstance(within_s, bool) or not isinstance(within_s, int | float) or not 0 <= within_s <= _LONGEST_S:
            raise Wrong("place an order", "within_s", within_s, f"a number from 0 to {_LONGEST_S:g}")
        try:
            await self._accepted(order, merchant, float(within_s))
        except NotTaken as error:
            said = {"error": f"place an order: order={order!r}, expected the broker to take it ({error})",
                    "hint": "send it again with the same id"}  # fmt: skip
            return web.json_response(said, status=503, headers={"Retry-After": "1"})
        where = f"/orders/{order}"
        return web.json_response({"order": order, "status": where}, status=202, headers={"Location": where})

    async def _cancel(self, request: web.Request) -> web.Response:
        name = request.match_info["order"]
        order = self._orders.known(name)
        if not self._around.cancelled:
            raise Wrong("cancel an order", "order", name, "a site whose customers may cancel")
        if order is None:
            said = {"error": f"cancel an order: order={name[:64]!r}, expected a known id"}
            return web.json_response(said, status=404)
        if order.state in ENDED:
            said = {"error": f"cancel an order: order={name!r}, expected one that has not ended", "state": order.state}
            return web.json_response(said, status=409)
        await asyncio.to_thread(_touch, Path(self._around.cancelled, name))
        return web.json_response({"order": name, "state": order.state}, status=202)

    async def _accepted(self, order: str, merchant: str, within_s: float = 0.0) -> None:
        """The broker has the order; it is published once, however many ask at the same time."""
        if self._orders.known(order) is not None:
            return
        placing = self._placing.get(order)
        if placing is None:
            placing = self._placing[order] = asyncio.ensure_future(self._published(order, merchant, within_s))
            placing.add_done_callback(lambda _: self._placing.pop(order, None))
        await asyncio.shield(placing)

    async def _published(self, order: str, merchant: str, within_s: float) -> None:
        self._orders.take([await self._publisher.publish(order, merchant, within_s)])

    async def _state(self, request: web.Request) -> web.Response:
        name = request.match_info["order"]
        order = self._orders.known(name)
        if order is None:
            said = {"error": f"look at an order: order={name[:64]!r}, expected a known id"}
            return web.json_response(said, status=404)
        took_ms = (order.ended_ns - order.published_ns) / 1e6 if order.ended_ns and order.published_ns else None
        return web.json_response(
            {"order": name, "merchant": order.merchant, "state": order.state, "attempts": order.attempts,
             "took_ms": took_ms, "queue": order.queue, "remark": order.remark}
        )  # fmt: skip

    async def _live(self, request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        if not after.isdecimal() or len(after) > 15:
            raise Wrong("look at the flow", "after", after, "a whole number from 0")
        now_ns = time.monotonic_ns()
        merchants = {
            name: {**self._orders.flow(name, now_ns), "over_grpc": name in self._around.over_grpc,
                   "law": self._laws.get(name), "upstream": self._watch.upstream(name)}
            for name in self._around.names()
        }  # fmt: skip
        return web.json_response(
            {"number": self._orders.number, "events": self._orders.since(int(after)), "merchants": merchants,
             "per_s": self._demand.per_s, "refused": self._demand.refused, "diversion": self._rollout.shown(),
             "workers": self._watch.said()}
        )  # fmt: skip

    async def _load(self, request: web.Request) -> web.Response:
        per_s = (await _object(request, "change the load")).get("per_s")
        if isinstance(per_s, bool) or not isinstance(per_s, int | float) or not 0 <= per_s <= MOST_PER_S:
            raise Wrong("change the load", "per_s", per_s, f"a number from 0 to {MOST_PER_S:g}")
        self._demand.per_s = float(per_s)
        return web.json_response({"per_s": per_s})

    async def _divert(self, request: web.Request) -> web.Response:
        share = (await _object(request, "divert orders")).get("share")
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise Wrong("divert orders", "share", share, "a number from 0 to 1")
        if not self._around.diversion:
            raise Wrong("divert orders", "diversion", "", "a worker to divert them to: python -m pos.site --divert-to")
        try:
            await self._rollout.set(float(share))
        except GreenlaneError as error:
            return web.json_response({"error": str(error)}, status=502)
        return web.json_response(self._rollout.shown())

    async def _law(self, request: web.Request) -> web.Response:
        url = self._around.merchants.get(request.match_info["name"])
        if url is None:
            rule = f"one of {', '.join(self._around.names())}"
            raise Wrong("set a law", "merchant", request.match_info["name"], rule)
        try:
            async with self._client.post(f"{url}/law", data=await request.read()) as answer:
                said = await answer.json()
                if answer.ok:
                    self._laws[request.match_info["name"]] = said
                return web.json_response(said, status=answer.status)
        except (aiohttp.ClientError, TimeoutError) as error:
            return web.json_response({"error": f"set a law: {error!r}, expected an answer"}, status=502)

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(text=page(), content_type="text/html", headers={"Content-Security-Policy": POLICY})


def _touch(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.touch()


class Wrong(Exception):
    """A question that cannot be answered; says what was expected."""

    def __init__(self, attempted: str, name: str, value: object, rule: str) -> None:
        super().__init__(f"{attempted}: {name}={value!r:.200}, expected {rule}")


@web.middleware
async def _said(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        answer: web.StreamResponse = await handler(request)
    except Wrong as error:
        return web.json_response({"error": str(error)}, status=400)
    return answer


async def _object(request: web.Request, attempted: str) -> Mapping[str, Any]:
    try:
        given = json.loads(await request.read())
    except ValueError as error:
        raise Wrong(attempted, "body", (await request.text())[:100], f"JSON ({error})") from None
    if not isinstance(given, dict):
        raise Wrong(attempted, "body", given, "a JSON object")
    return given


# --- How many orders are diverted to the other worker: set here, or by `greenlane divert`, and shown.

_EVERY_S: Final = 0.5


class Rollout:
    """The share of one flow.

    Args:
        url: the place where it lies; "" = nothing is diverted.
    """

    def __init__(self, url: str) -> None:
        self._place = open_place(url) if url else None
        self._share_frac = 0.0

    async def run(self) -> None:
        """Looks until it is cancelled: others may change it too."""
        while self._place is not None:
            with contextlib.suppress(GreenlaneError):
                self._share_frac = (await asyncio.to_thread(self._place.read, QUEUE)).share_frac
            await asyncio.sleep(_EVERY_S)

    async def set(self, share_frac: float) -> None:
        """This many from now on; producers see it within a second.

        Raises:
            GreenlaneError: the place cannot be written.
        """
        assert self._place is not None
        await asyncio.to_thread(set_share, self._place, QUEUE, share_frac, DIVERTED)
        self._share_frac = share_frac

    def shown(self) -> dict[str, Any] | None:
        """For the page; None when nothing can be diverted."""
        return None if self._place is None else {"share": self._share_frac, "to": DIVERTED}


# --- What Greenlane's workers tell of themselves, asked now and then off the loop.


class Watch:
    """The workers' last answers.

    Args:
        folder: of their sockets; None = nobody is asked.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._workers: list[dict[str, Any]] = []
        self._keys: dict[str, dict[str, Any]] = {}

    async def run(self) -> None:
        """Asks until it is cancelled."""
        while self._folder is not None:
            self._workers = await asyncio.to_thread(look_at_all, self._folder)
            self._keys = together(self._workers)
            await asyncio.sleep(_EVERY_S)

    def upstream(self, merchant: str) -> dict[str, Any] | None:
        """Parked, running, limit and breaker of a merchant in all workers; None when nobody knows it."""
        return self._keys.get(merchant)

    def said(self) -> str:
        """The workers in a line."""
        return "; ".join(
            f"greenlane ({one['mode']}): {one['running']} of {one['slots']} slots, {one['parked']} parked"
            for one in self._workers
        )


# --- The page as one file: it asks nobody but the backend that it came from.

_HERE: Final = Path(__file__).resolve().parents[1] / "pages"
POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)


@cache
def page() -> str:
    """Its HTML, with style and script inside."""
    text = (_HERE / "page.html").read_text("utf-8")
    for name in ("page.css", "page.js"):
        text = text.replace(f"@{name}@", (_HERE / name).read_text("utf-8"))
    return text
