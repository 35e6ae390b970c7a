"""Synchronous views beside aiohttp's loop, behind its real server."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from tests.placement import work

import greenlane
from greenlane.wiring import placed_calls, process
from tests.child import free_port

aiohttp = pytest.importorskip("aiohttp")
from aiohttp import web  # noqa: E402

from greenlane.hosts.aiohttp import deadlines, placed_view  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.measured]

LANE = "greenlane-lane"
VIEWS = "greenlane-views"
SOON = {"x-envoy-expected-rq-timeout-ms": "40"}


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Each test starts Greenlane again; what is learned of its views stays, so each has views of its own."""
    yield
    running = process.running()
    if running is not None:
        running.stop()


def here() -> str:
    return threading.current_thread().name


def thread() -> Any:
    return web.Response(text=here())


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


async def until_on_the_lane(client: Any, path: str) -> None:
    give_up = time.monotonic() + work.LONGEST_S
    while (said := await text(client, path)) != LANE:
        assert time.monotonic() < give_up, said


def test_a_view_that_computes_goes_to_the_lane_once_it_is_known() -> None:
    @placed_view
    def quote(request: Any) -> Any:
        work.burn(6)
        return thread()

    async def program(client: Any) -> None:
        assert (await text(client, "/")).startswith(VIEWS)
        await until_on_the_lane(client, "/")

    served(program, web.get("/", quote))
    assert any(row.endswith("quote") for row in placed_calls.placement().learned())


def test_a_view_that_blocks_stays_on_threads_of_its_own() -> None:
    @placed_view
    def blocks(request: Any) -> Any:
        time.sleep(0.004)
        return thread()

    @placed_view
    @greenlane.light
    def marked(request: Any) -> Any:
        return thread()

    async def program(client: Any) -> None:
        for _ in range(8):
            assert (await text(client, "/")).startswith(VIEWS)
        assert await text(client, "/light") == here()

    served(program, web.get("/", blocks), web.get("/light", marked))


def test_blocking_views_run_side_by_side() -> None:
    inside = threading.Barrier(12)

    @placed_view
    def meets(request: Any) -> Any:
        inside.wait(work.LONGEST_S)
        return thread()

    async def program(client: Any) -> None:
        await asyncio.gather(*(text(client, "/") for _ in range(12)))

    served(program, web.get("/", meets))


def test_the_body_is_read_on_the_loop_and_given_to_functions_and_methods() -> None:
    @placed_view(body=True)
    def total(request: Any, body: bytes) -> Any:
        return web.json_response({"sum": sum(json.loads(body)), "from": request.query["from"]})

    class Totals(web.View):
        @placed_view(body=True)
        def post(self, body: bytes) -> Any:
            return web.json_response({"sum": sum(json.loads(body)), "from": self.request.query["from"]})

    async def program(client: Any) -> None:
        for path in ("/function", "/method"):
            async with client.post(path, params={"from": "test"}, json=[1, 2, 3]) as answer:
                assert await answer.json() == {"sum": 6, "from": "test"}

    served(program, web.post("/function", total), web.view("/method", Totals))


def test_what_a_view_raises_is_raised_to_aiohttp() -> None:
    @placed_view
    def taken(request: Any) -> Any:
        work.burn(6)
        raise web.HTTPConflict(text=here())

    async def program(client: Any) -> None:
        give_up = time.monotonic() + work.LONGEST_S
        said = ""
        while said != LANE:
            assert time.monotonic() < give_up, said
            async with client.get("/") as answer:
                assert answer.status == 409
                said = await answer.text()

    served(program, web.get("/", taken))


def test_a_deadline_of_the_request_holds_for_a_view_and_it_ends_at_its_checkpoint() -> None:
    ended = threading.Event()

    @placed_view
    def endless(request: Any) -> Any:
        try:
            while True:
                work.burn(1)
                greenlane.checkpoint()
        except greenlane.DeadlineExceeded:
            ended.set()
            raise

    async def program(client: Any) -> None:
        async with client.get("/", headers=SOON) as answer:
            assert (answer.status, await answer.text()) == (504, "deadline exceeded\n")

    served(program, web.get("/", endless))
    assert ended.wait(work.LONGEST_S)


def test_the_middleware_does_the_same_for_async_views() -> None:
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


def test_async_and_generator_functions_are_refused() -> None:
    async def view(request: Any) -> Any:
        """Belongs to the loop."""

    with pytest.raises(greenlane.PlacementError, match="hint: "):
        placed_view(view)


LAZY = """
import sys
from greenlane.hosts.aiohttp import deadlines, placed_view
assert not [name for name in sys.modules if name.startswith("greenlane.placement")]
placed_view(lambda request: None)
assert "greenlane.placement.functions" in sys.modules
"""


def test_placement_is_loaded_when_a_view_is_decorated(run_python: Callable[..., object]) -> None:
    run_python(LAZY)
