"""The HTTP server of upstreams in Python.

GET /<name>?id=&region=&endpoint=   replies after the law's time; x-upstream-ms: request read -> reply written, ms; the
                                    same as `total` of server-timing
GET /counts                         {"calls": {"<endpoint>": n}}: who has asked so far
GET /ready, /healthz                ok
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from statistics import NormalDist
from typing import Any, Final

from aiohttp import web

from offers import traced, work
from offers.table import Upstream, drawn, uniform


class Server:
    """Upstreams of one process.

    Args:
        upstreams: which.
        burns_per_ms: iterations of `burn` in one millisecond of CPU.
    """

    def __init__(self, upstreams: Iterable[Upstream], burns_per_ms: float) -> None:
        self._upstreams = tuple(upstreams)
        self._burns_per_ms = burns_per_ms
        self._calls: Counter[str] = Counter()

    def application(self) -> web.Application:
        """Its routes."""
        app = web.Application(middlewares=traced.middlewares())
        for upstream in self._upstreams:
            app.router.add_get(f"/{upstream.name}", self._of(upstream))
        app.router.add_get("/counts", self._counts)
        for path in ("/healthz", "/ready"):
            app.router.add_get(path, _well)
        return app

    def _of(self, upstream: Upstream) -> Callable[[web.Request], Awaitable[web.Response]]:
        burns = int(upstream.cpu_ms * self._burns_per_ms)

        async def answer(request: web.Request) -> web.Response:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            call_id = request.query.get("id", "")
            self._calls[request.query.get("endpoint", "")] += 1
            due_s = began_s + latency_ms(upstream, call_id) / 1e3
            if burns:
                work.perform("burn", burns)
            said = reply(upstream.name, call_id)
            await asyncio.sleep(due_s - loop.time())
            took_ms = f"{(loop.time() - began_s) * 1e3:.3f}"
            clock = {"x-upstream-ms": took_ms, "server-timing": f"total;dur={took_ms}"}
            return web.json_response(said, headers=clock)

        return answer

    async def _counts(self, _: web.Request) -> web.Response:
        return web.json_response({"calls": dict(self._calls)})


async def _well(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def serve(server: Server, port: int) -> None:
    """Serves 127.0.0.1:`port` until SIGTERM or SIGINT."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    # Callers keep their connections as long as they please: none is closed under a request.
    runner = web.AppRunner(server.application(), access_log=None, keepalive_timeout=3600, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await ended.wait()
    await runner.cleanup()


# --- How long an upstream takes for an id, and what it replies: both follow from the id alone.

_NORMAL: Final = NormalDist()
_Z99: Final = _NORMAL.inv_cdf(0.99)


def latency_ms(upstream: Upstream, call_id: str) -> float:
    """Lognormal by median and 99th percentile, `at_most_ms` at most; from the request read to the reply written."""
    spread = math.log(upstream.p99_ms / upstream.median_ms) / _Z99
    drawn_ms = upstream.median_ms * math.exp(spread * _NORMAL.inv_cdf(uniform(upstream.name, call_id)))
    return min(upstream.at_most_ms, drawn_ms)


def reply(name: str, call_id: str) -> dict[str, Any]:
    """What is said: plausible, and the same for the same id."""
    number = drawn(f"reply-{name}", call_id)
    match name:
        case "eta":
            return {"eta_s": 60 + number % 840}
        case "routing":
            return {"metres": 300 + number % 9000, "route": [_place(number, at) for at in range(8)]}
        case "zones":
            return {"zone": number % 64}
        case _:
            return {"factor_percent": 80 + number % 61}


def _place(number: int, at: int) -> list[int]:
    """A point of the way: micro-degrees."""
    north, east = number >> 8 * at & 255, number >> 8 * (7 - at) & 255
    return [45_700_000 + north * 200, 4_800_000 + east * 200]
