"""Deadlines of requests, and what views run beside the loop, behind aiohttp's real server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from tests.placement import work

import greenlane
from greenlane.wiring import process
from tests.child import free_port

aiohttp = pytest.importorskip("aiohttp")
from aiohttp import web  # noqa: E402

from greenlane.hosts.aiohttp import deadlines  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.measured]

LANE = "greenlane-lane"
SOON = {"x-envoy-expected-rq-timeout-ms": "40"}


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Each test starts Greenlane again."""
    yield
    running = process.running()
    if running is not None:
        running.stop()


def here() -> str:
    return threading.current_thread().name


def served(program: Callable[[Any], Coroutine[Any, Any, Any]], *routes: Any, **options: Any) -> Any:
    """Run a program with a client of a real server that has these routes."""

    async def run() -> Any:
        app = web.Application(**options)
        app.add_routes(routes)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            port = free_port()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
                return await program(client)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


async def text(client: Any, path: str, **options: Any) -> str:
    async with client.get(path, **options) as answer:
        assert answer.status == 200, (answer.status, await answer.text())
        return str(await answer.text())


@pytest.mark.gate
def test_what_a_view_runs_is_on_the_lane() -> None:
    def quote(body: bytes) -> dict[str, Any]:
        work.burn(6)
        return {"sum": sum(json.loads(body)), "on": here()}

    async def view(request: Any) -> Any:
        return web.json_response(await greenlane.run(quote, await request.read()))

    async def program(client: Any) -> None:
        async with client.post("/", json=[1, 2, 3]) as answer:
            assert await answer.json() == {"sum": 6, "on": LANE}

    served(program, web.post("/", view))


def test_a_late_or_refused_request_is_answered_unless_its_answer_has_begun() -> None:
    async def late(request: Any) -> Any:
        await greenlane.run(work.burn, 2000)

    async def refused(request: Any) -> Any:
        raise greenlane.Overloaded("place a function")

    async def begun(request: Any) -> Any:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        raise greenlane.DeadlineExceeded

    async def program(client: Any) -> None:
        async with client.get("/late", headers=SOON) as answer:
            assert answer.status == 504
        async with client.get("/refused") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        with pytest.raises(aiohttp.ClientPayloadError):
            await text(client, "/begun")

    routes = [web.get("/late", late), web.get("/refused", refused), web.get("/begun", begun)]
    served(program, *routes, middlewares=[deadlines])


LAZY = """
import sys
from greenlane.hosts.aiohttp import deadlines
assert not [name for name in sys.modules if name.startswith("greenlane.placement")]
"""


def test_the_middleware_alone_loads_no_placement(run_python: Callable[..., object]) -> None:
    run_python(LAZY)
