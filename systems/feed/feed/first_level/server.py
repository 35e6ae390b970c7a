"""One first-level model as a service: `python -m feed.first_level.server --help`.

    POST /candidates/<user id>   body: the user's interests and history (JSON) -> {"ids": [...], "scores": [...]}
    POST /law                    body: {"median_ms": 15, "p99_ms": 45, "fail_frac": 0} -> its answers from now on

What it answers to one body never changes, so answers are kept: it shall cost the machine little, since the feed is what
is measured. The delay is slept.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web

from feed.user import MODELS, from_json
from feed.world.world import World, kept

# --- How long a model's answer takes, and how often it fails: the law that a model service holds to, changed live.


_Z99: Final = 2.3263478740408408


@dataclass(frozen=True)
class Law:
    """Lognormal, by the two numbers that people know of a service.

    Args:
        median_ms: half of the answers take less; 0 = no delay at all.
        p99_ms: one of a hundred takes more; at least median_ms.
        fail_frac: share of requests answered 500, after their delay.
    """

    median_ms: float = 15.0
    p99_ms: float = 45.0
    fail_frac: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.median_ms <= self.p99_ms:
            rule = "0 <= median_ms <= p99_ms"
            raise ValueError(f"setting a law: median_ms={self.median_ms!r}, p99_ms={self.p99_ms!r}, expected {rule}")
        if not 0 <= self.fail_frac <= 1:
            raise ValueError(f"setting a law: fail_frac={self.fail_frac!r}, expected 0 to 1")

    def delay_s(self, source: random.Random) -> float:
        """One draw."""
        if self.median_ms == 0:
            return 0.0
        spread = math.log(self.p99_ms / self.median_ms) / _Z99
        return self.median_ms / 1000 * math.exp(source.gauss(0, spread))

    def fails(self, source: random.Random) -> bool:
        """One draw."""
        return source.random() < self.fail_frac


# Answers kept: at 25 kB each, 100 MB.
_MOST_KEPT: Final = 4_000


class Service:
    """The model's answers and its law."""

    def __init__(self, model: str, world: World, law: Law) -> None:
        self._model = model
        self._world = world
        self._law = law
        self._source = random.Random(f"{world.seed}/{model}")
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    async def candidates(self, request: web.Request) -> web.Response:
        """POST /candidates/<user id>."""
        body = await request.read()
        delay_s = self._law.delay_s(self._source)
        answer = self._answer(request.match_info["user"], body)
        if delay_s:
            await asyncio.sleep(delay_s)
        if self._law.fails(self._source):
            raise web.HTTPInternalServerError(text="the model fails, as configured")
        return web.Response(body=answer, content_type="application/json")

    async def set_law(self, request: web.Request) -> web.Response:
        """POST /law."""
        try:
            self._law = Law(**orjson.loads(await request.read()))
        except (TypeError, ValueError) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        return web.Response()

    def _answer(self, user: str, body: bytes) -> bytes:
        key = (user, hash(body))
        answer = self._kept.get(key)
        if answer is None:
            ids, scores = self._world.first_level.answer(self._model, from_json(body))
            answer = self._kept[key] = orjson.dumps({"ids": ids, "scores": scores})
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return answer


def application(service: Service) -> web.Application:
    """The service's routes."""
    app = web.Application(client_max_size=16 * 2**20)
    app.router.add_post("/candidates/{user}", service.candidates)
    app.router.add_post("/law", service.set_law)
    return app


def main(argv: Sequence[str] | None = None) -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where worlds are kept")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--items", type=int, required=True)
    parser.add_argument("--median-ms", type=float, default=Law.median_ms)
    parser.add_argument("--p99-ms", type=float, default=Law.p99_ms)
    given = parser.parse_args(argv)
    world = kept(given.folder, given.seed, given.items)
    # Before the first request, not at its cost.
    _ = world.first_level
    app = application(Service(given.model, world, Law(given.median_ms, given.p99_ms)))
    web.run_app(app, host="127.0.0.1", port=given.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
