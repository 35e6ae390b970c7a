"""One merchant as a process: `python -m pos.merchants.serve --name taco --port 20001 --law '{"median_ms": 300}'`.

    GET  /menu               200 after a while
    POST /orders/<order>     places it: 201 carried out, 200 was carried out before, 500 an error
    POST /orders/<order>/confirm   200 after a while, 404 not known
    GET  /orders/<order>     200 carried out, 404 not known, 501 this merchant does not tell
    GET  /law, POST /law     {"median_ms": 300, "p99_ms": 300, "error_frac": 0, …}: some of it changes some of it
    GET  /effects            calls, effects, and how many of them were repeated or doubled; ?orders=1 for each order
    POST /effects            forgets them

An order's time is divided among its calls where they say `?of=3`; without it, all of it is that of placing it.
With --grpc-port orders are taken there too: the unary methods of names.py, JSON both ways.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from aiohttp import web

from pos.merchants.conduct import Law, Turn

from .conduct import Conduct
from .names import ASK, PLACE


class Counter:
    """The HTTP side of a merchant."""

    def __init__(self, conduct: Conduct) -> None:
        self._conduct = conduct

    def application(self) -> web.Application:
        """Its routes."""
        app = web.Application(client_max_size=1 << 20)
        app.router.add_get("/menu", self._menu)
        app.router.add_post("/orders/{order}", self._place)
        app.router.add_post("/orders/{order}/confirm", self._confirm)
        app.router.add_get("/orders/{order}", self._ask)
        app.router.add_get("/law", self._law)
        app.router.add_post("/law", self._change)
        app.router.add_get("/effects", self._effects)
        app.router.add_post("/effects", self._forget)
        return app

    async def _menu(self, request: web.Request) -> web.Response:
        await self._conduct.part(_calls(request))
        return web.json_response({"dishes": ["the usual"]})

    async def _confirm(self, request: web.Request) -> web.Response:
        await self._conduct.part(_calls(request))
        return web.json_response({}, status=200 if self._conduct.desk.knows(request.match_info["order"]) else 404)

    async def _place(self, request: web.Request) -> web.Response:
        await request.read()
        async with self._conduct.call(request.match_info["order"], _calls(request)) as verdict:
            if verdict.turn is Turn.RESET and request.transport is not None:
                request.transport.abort()
            if verdict.turn is not Turn.WELL:
                return web.json_response({"error": "the kitchen does not answer"}, status=500)
            return web.json_response({"order": request.match_info["order"]}, status=200 if verdict.known else 201)

    async def _ask(self, request: web.Request) -> web.Response:
        status = {True: 200, False: 404, None: 501}[self._conduct.asked(request.match_info["order"])]
        return web.json_response({}, status=status)

    async def _law(self, request: web.Request) -> web.Response:
        return web.json_response(asdict(self._conduct.law))

    async def _change(self, request: web.Request) -> web.Response:
        try:
            given = json.loads(await request.read())
            if not isinstance(given, dict):
                raise ValueError(f"set a law: body={given!r}, expected a JSON object")
            self._conduct.law = self._conduct.law.changed(given)
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        return await self._law(request)

    async def _effects(self, request: web.Request) -> web.Response:
        desk = self._conduct.desk
        each = {"of_order": desk.orders()} if request.query.get("orders") == "1" else {}
        return web.json_response({"merchant": self._conduct.name, **desk.look(), **each})

    async def _forget(self, request: web.Request) -> web.Response:
        self._conduct.desk.clear()
        return await self._effects(request)


def _calls(request: web.Request) -> int:
    """Of an order, as the caller says."""
    said = request.query.get("of", "1")
    return int(said) if said in ("1", "2", "3") else 1


def grpc_server(conduct: Conduct, port: int) -> Any:
    """A gRPC server with the merchant's two methods; not started yet."""
    import grpc

    async def place(request: dict[str, Any], context: Any) -> dict[str, Any]:
        async with conduct.call(str(request["order"])) as verdict:
            if verdict.turn is Turn.RESET:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was reset")
            if verdict.turn is not Turn.WELL:
                await context.abort(grpc.StatusCode.INTERNAL, "the kitchen does not answer")
            return {"order": request["order"], "known": verdict.known}

    async def ask(request: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"known": conduct.asked(str(request["order"]))}

    def unary(method: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            method, request_deserializer=json.loads, response_serializer=lambda answer: json.dumps(answer).encode()
        )

    server = grpc.aio.server()
    service, _, placed = PLACE[1:].partition("/")
    methods = {placed: unary(place), ASK.rpartition("/")[2]: unary(ask)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    return server


async def serve(name: str, port: int, grpc_port: int, law: Law) -> None:
    """Runs until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    conduct = Conduct(name, law)
    over_grpc = grpc_server(conduct, grpc_port) if grpc_port else None
    if over_grpc is not None:
        await over_grpc.start()
    # A caller that goes away ends its call: a merchant that hangs shall not hold what nobody waits for.
    runner = web.AppRunner(
        Counter(conduct).application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.2,
        keepalive_timeout=600,
    )  # fmt: skip
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await ended.wait()
    await runner.cleanup()
    if over_grpc is not None:
        await over_grpc.stop(0.2)


def main(argv: Sequence[str] | None = None) -> None:
    """Serves until it is ended."""
    said = (__doc__ or "").partition(":")[0]
    parser = argparse.ArgumentParser(prog="python -m pos.merchants.serve", description=said)
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--grpc-port", type=int, default=0, help="0 = none")
    parser.add_argument("--law", type=json.loads, default={}, help="JSON; the rest is as in pos.merchants.conduct")
    given = parser.parse_args(argv)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(given.name, given.port, given.grpc_port, Law().changed(given.law)))


if __name__ == "__main__":
    main()
