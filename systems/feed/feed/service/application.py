"""The service over HTTP.

    GET /feed?user=7                 the whole feed: {"user", "variant", "feed", "total", "ids": [...], "degraded": []}
    GET /feed?user=7&size=50         its first page, and "next": where the next one is
    GET /feed/<feed>?from=50&size=50 a later page of the same ranking
        &stages=1                    with "stages": where the time went, and "ranked": the ids before the rules
    GET /totals                      requests and stages since the start, CPU and processes of the service
    GET /health
    GET /, GET /stages               pages for people (feed/pages/routes.py)

A deadline comes with the request (x-envoy-expected-rq-timeout-ms, or the service's own) and every answer is 200 as long
as the question is well formed: what is missing stands in `degraded`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from feed.pages.routes import Pages
from feed.stores.items import MOST_CONNECTIONS
from feed.user import MOST_ACTIVE
from feed.variants.ranking import Given, ranking
from feed.world.catalogue import NOW_S

from .feeds import Feeds, FirstLevel
from .job import Job, keep, token_of, user_of
from .job import kept as kept_page
from .stages import Stage, selector_of

DEADLINE_HEADER = "x-envoy-expected-rq-timeout-ms"
# Nobody waits for less, or longer.
_DEADLINE_LEAST_MS, _DEADLINE_MOST_MS = 10.0, 60_000.0
# This many reasons of problems are told apart: some have numbers in them.
_MOST_REASONS = 50


@dataclass(frozen=True)
class Options:
    """How a service serves.

    Args:
        variant: one of table.VARIANTS.
        deadline_ms: of requests that bring none.
        now_s: the present; the made world's by default, so that a ranking can be made again.
    """

    variant: str
    deadline_ms: float = 500.0
    now_s: int = NOW_S


@dataclass
class Totals:
    """What the service did since its start."""

    requests: int = 0
    tasks: int = 0
    bytes_moved: int = 0
    path_ns: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    stages: dict[str, Stage] = field(default_factory=dict)

    def count(self, job: Job) -> None:
        """Adds one request."""
        self.requests += 1
        self.tasks += job.stages.tasks
        self.bytes_moved += job.bytes_moved
        self.path_ns += job.path_ns
        self.problems.update(problem.part for problem in job.problems)
        for problem in job.problems:
            reason = f"{problem.part}: {problem.reason}"
            self.reasons[reason if reason in self.reasons or len(self.reasons) < _MOST_REASONS else "others"] += 1
        for name, stage in job.stages.stages.items():
            total = self.stages.setdefault(name, Stage())
            for part, value in asdict(stage).items():
                setattr(total, part, getattr(total, part) + value)


class Service:
    """The application's state and its routes."""

    def __init__(self, given: Given, options: Options) -> None:
        self._given = given
        self._options = options
        self.pages = Pages(given.addresses, options.variant, options.now_s, options.deadline_ms)
        self._totals = Totals()
        self._ranking = ranking(options.variant, given)
        self._feeds: Feeds

    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """The application's life: what it needs is there from before its first request to after its last."""
        addresses = self._given.addresses
        await self._ranking.start()
        # Once, for connections that the store's restart has left dead.
        retry = Retry(NoBackoff(), 1)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            Redis(
                host="127.0.0.1",
                port=addresses.history,
                retry=retry,
                socket_connect_timeout=1.0,
                max_connections=MOST_CONNECTIONS,
            ) as store,  # fmt: skip
            aiohttp.ClientSession(connector=connector) as session,
        ):
            self._feeds = Feeds(store, FirstLevel(session, addresses.models), self._ranking)
            try:
                yield
            finally:
                await self._ranking.close()

    async def first(self, request: web.Request) -> web.Response:
        """GET /feed."""
        job = self._job(request, _whole(request, "user", least=1))
        ids = await self._feeds.feed(job)
        token = token_of(job.user_id)
        kept = await keep(job, self._feeds.store, token, ids)
        return self._answered(request, job, ids, token if kept else None)

    async def later(self, request: web.Request) -> web.Response:
        """GET /feed/<feed>."""
        token = request.match_info["feed"]
        try:
            job = self._job(request, user_of(token))
        except ValueError:
            raise _refused("asking for a page", "feed", token, "what an answer gave as `feed`") from None
        kept = await kept_page(job, self._feeds.store, token)
        ids = await self._feeds.feed(job) if kept is None else kept
        return self._answered(request, job, ids, token)

    async def totals(self, request: web.Request) -> web.Response:
        """GET /totals."""
        totals = {
            "requests": self._totals.requests,
            "tasks": self._totals.tasks,
            "bytes_moved": self._totals.bytes_moved,
            # Of this process; exact when requests came one at a time.
            "path_cpu_ms": self._totals.path_ns / 1e6,
            "problems": dict(self._totals.problems),
            "reasons": dict(self._totals.reasons),
            "stages": {name: stage.row() for name, stage in self._totals.stages.items()},
            "cpu_ms": time.process_time() * 1000,
            "rounds": selector.rounds.rows() if (selector := selector_of(asyncio.get_running_loop())) else [],
            "pids": [os.getpid(), *self._ranking.pids()],
        }
        return web.json_response(totals)

    async def health(self, request: web.Request) -> web.Response:
        """GET /health."""
        return web.Response(text="ok")

    def _job(self, request: web.Request, user_id: int) -> Job:
        text = request.headers.get(DEADLINE_HEADER, "")
        try:
            deadline_ms = float(text) if text else self._options.deadline_ms
        except ValueError:
            raise _refused("reading a deadline", DEADLINE_HEADER, text, "milliseconds") from None
        deadline_ms = min(max(deadline_ms, _DEADLINE_LEAST_MS), _DEADLINE_MOST_MS)
        wants_ranked = bool(request.query.get("stages"))
        return Job(user_id, self._options.now_s, deadline_ms / 1000, wants_ranked=wants_ranked)

    def _answered(self, request: web.Request, job: Job, ids: Sequence[int], token: str | None) -> web.Response:
        begin, size = _whole(request, "from", 0), _whole(request, "size", MOST_ACTIVE, least=1)
        end = begin + size
        with job.stages.computing("answer"):
            answer: dict[str, Any] = {
                "user": job.user_id,
                "variant": self._options.variant,
                "feed": token,
                "from": begin,
                "total": len(ids),
                "ids": list(ids[begin:end]),
                "next": f"/feed/{token}?from={end}&size={size}" if token and end < len(ids) else None,
                "degraded": [asdict(problem) for problem in job.problems],
            }
            body = self._ranking.encoded(answer)
        self._totals.count(job)
        self.pages.live.count(job)
        if request.query.get("stages"):
            more = {"stages": job.stages.rows(), "coroutines": job.stages.tasks, "ranked": list(job.ranked)}
            body = self._ranking.encoded(answer | more)
        return web.Response(body=body, content_type="application/json")


def application(given: Given, options: Options) -> web.Application:
    """The aiohttp application of a variant."""
    service = Service(given, options)
    app = web.Application()
    app.cleanup_ctx.append(service.running)
    app.router.add_get("/feed", service.first)
    app.router.add_get("/feed/{feed}", service.later)
    app.router.add_get("/totals", service.totals)
    app.router.add_get("/health", service.health)
    service.pages.add_to(app)
    return app


def _whole(request: web.Request, name: str, default: int | None = None, least: int = 0) -> int:
    """A whole number of the query."""
    text = request.query.get(name)
    if text is None and default is not None:
        return default
    try:
        value = int(text or "")
    except ValueError:
        value = least - 1
    if value < least:
        raise _refused("asking for a feed", name, text, f"a whole number from {least}")
    return value


def _refused(what: str, name: str, value: object, rule: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(
        text=json.dumps({"error": f"{what}: {name}={value!r}, expected {rule}"}), content_type="application/json"
    )
