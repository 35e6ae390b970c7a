"""Applications under test, one for each framework: the same routes with the same cost.

`/items/{item}` sleeps 20 ms, `/report` computes 60 ms, `/sync/{item}` computes 5 ms on a thread, `/fails` raises,
`/later` answers immediately and computes 60 ms afterwards, `/sub/hello/{name}` stands behind a mount.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any


def burn(ms: float) -> None:
    begin = time.thread_time_ns()
    while time.thread_time_ns() - begin < ms * 1e6:
        pass


def fastapi_app() -> Any:
    from fastapi import APIRouter, FastAPI
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Mount, Route

    app = FastAPI()
    router = APIRouter(prefix="/v1")

    @app.get("/items/{item}")
    async def items(item: int) -> int:
        await asyncio.sleep(0.02)
        return item

    @app.get("/report")
    async def report() -> int:
        burn(60)
        return 1

    @app.get("/sync/{item}")
    def sync(item: int) -> int:
        burn(5)
        return item

    @app.get("/fails")
    async def fails() -> None:
        raise KeyError("fails")

    async def after() -> None:
        burn(60)

    @app.get("/later")
    async def later() -> Any:
        return JSONResponse(1, background=BackgroundTask(after))

    @router.get("/things/{thing}")
    async def things(thing: int) -> int:
        return thing

    async def hello(request: Any) -> Any:
        return PlainTextResponse("hello")

    app.include_router(router)
    app.routes.append(Mount("/sub", Starlette(routes=[Route("/hello/{name}", hello)])))
    return app


def litestar_app() -> Any:
    from litestar import Litestar, get

    @get("/items/{item:int}")
    async def items(item: int) -> int:
        await asyncio.sleep(0.02)
        return item

    return Litestar([items])


def quart_app() -> Any:
    from quart import Quart

    app = Quart("app")

    @app.get("/items/<int:item>")
    async def items(item: int) -> str:
        await asyncio.sleep(0.02)
        return str(item)

    return app


def django_app() -> Any:
    from django.conf import settings
    from django.http import HttpResponse
    from django.urls import path

    async def items(request: Any, item: int) -> HttpResponse:
        await asyncio.sleep(0.02)
        return HttpResponse(str(item))

    settings.configure(ROOT_URLCONF=(path("items/<int:item>", items),), ALLOWED_HOSTS=["*"], SECRET_KEY="test")
    from django.core.asgi import get_asgi_application

    return get_asgi_application()


def falcon_app() -> Any:
    import falcon.asgi

    class Items:
        async def on_get(self, req: Any, resp: Any, item: str) -> None:
            await asyncio.sleep(0.02)
            resp.text = item

    app = falcon.asgi.App()
    app.add_route("/items/{item}", Items())
    return app


def aiohttp_app() -> Any:
    from aiohttp import web

    async def items(request: Any) -> Any:
        await asyncio.sleep(0.02)
        return web.json_response(1)

    async def report(request: Any) -> Any:
        burn(60)
        return web.json_response(1)

    async def sync(request: Any) -> Any:
        await asyncio.get_running_loop().run_in_executor(None, burn, 5)
        return web.json_response(1)

    async def fails(request: Any) -> Any:
        raise KeyError("fails")

    kept = set()

    async def after() -> None:
        burn(60)

    async def later(request: Any) -> Any:
        task = asyncio.create_task(after())
        kept.add(task)
        task.add_done_callback(kept.discard)
        return web.json_response(1)

    app, sub = web.Application(), web.Application()
    app.add_routes([web.get("/items/{item}", items), web.get("/report", report), web.get("/sync/{item}", sync)])
    app.add_routes([web.get("/fails", fails), web.get("/later", later)])
    sub.add_routes([web.get("/hello/{name}", items)])
    app.add_subapp("/sub", sub)
    return app


def serve_aiohttp(port: int, loop: str) -> None:
    from aiohttp import web

    made = asyncio.new_event_loop()
    if loop == "uvloop":
        import uvloop

        made = uvloop.new_event_loop()
    web.run_app(aiohttp_app(), host="127.0.0.1", port=port, loop=made, access_log=None)


def middleware_app() -> Any:
    """With the middleware inside, as README adds it: under uvicorn both see each request."""
    from greenlane.hosts.asgi import Greenlane

    app = fastapi_app()
    app.add_middleware(Greenlane)
    return app


def serve_wrapped(port: int) -> None:
    """A server that nobody observes: the middleware stands around the application."""
    import uvicorn

    from greenlane.hosts.asgi import Greenlane
    from greenlane.wiring.recording import recording

    for observed in recording()._also:
        observed.uninstall()
    uvicorn.run(Greenlane(fastapi_app(), host="mine"), port=port, log_level="warning")


if __name__ == "__main__":
    if sys.argv[1] == "wrapped":
        serve_wrapped(int(sys.argv[2]))
    else:
        serve_aiohttp(int(sys.argv[2]), sys.argv[3])
