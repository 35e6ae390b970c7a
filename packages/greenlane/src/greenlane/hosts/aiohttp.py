"""aiohttp: the deadline of each request, also for what its view computes beside the loop.

    app = web.Application(middlewares=[deadlines])

    async def quote(request):
        return web.json_response(await greenlane.run(priced, await request.read()))  # not on the loop

A deadline from the request's headers, or of its lane, applies to the view, to `greenlane.run` and to
`greenlane.checkpoint()`. A late request gets 504. If `placed_queue` calls are waiting, it gets 503 with Retry-After.

Under one of our hosts its settings hold; elsewhere those of this process.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from greenlane import deadline
from greenlane.errors import DeadlineExceeded, Overloaded
from greenlane.lanes.rules import LaneRules
from greenlane.settings import Settings, load
from greenlane.wiring import process

__all__ = ["deadlines"]

AsyncView = Callable[..., Awaitable[web.StreamResponse]]

_LATE: Final = "deadline exceeded\n"
_REFUSED: Final = "too many calls in progress\n"


@web.middleware
async def deadlines(request: web.Request, handler: AsyncView) -> web.StreamResponse:
    """A middleware: applies the deadline of each request's headers, and answers 504 and 503, if no answer has begun."""
    with deadline.until(_due_ns(request)):
        try:
            return await handler(request)
        except (DeadlineExceeded, Overloaded) as error:
            if request.writer.output_size:
                raise
            if isinstance(error, DeadlineExceeded):
                raise web.HTTPGatewayTimeout(text=_LATE) from error
            seconds = {"Retry-After": str(_settings().retry_after_s)}
            raise web.HTTPServiceUnavailable(text=_REFUSED, headers=seconds) from error


def _due_ns(request: web.BaseRequest) -> int:
    """Give when a request is due, by its headers or its lane; monotonic ns, 0 = never.

    It counts from now: what the server did with the request before is not known here.
    """
    rules = _rules()
    environ = {name: value for asked, name in rules.headers if (value := request.headers.get(asked)) is not None}
    now_ns = time.monotonic_ns()
    told_ns = deadline.due_ns(environ, environ, now_ns)
    lane_ns = rules.lanes.due_ns(request.path, now_ns) if rules.lanes.any else 0
    return min(told_ns, lane_ns) if told_ns and lane_ns else told_ns or lane_ns


def _settings() -> Settings:
    running = process.running()
    return _settings_of_process() if running is None else running.settings


@functools.cache
def _settings_of_process() -> Settings:
    return load()


class _Rules:
    """What settings say of deadlines."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        names = settings.deadline_headers
        # (header, its name in a WSGI environ), in order of preference.
        self.headers = tuple(zip(names, deadline.environ_names(names), strict=True))
        self.lanes = LaneRules(settings)


_known: _Rules | None = None


def _rules() -> _Rules:
    """Give the rules of the settings that hold now: a host may start, and stop, between two requests."""
    global _known
    settings, known = _settings(), _known
    if known is None or known.settings is not settings:
        known = _known = _Rules(settings)
    return known
