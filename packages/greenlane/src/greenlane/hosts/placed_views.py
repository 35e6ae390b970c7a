"""What the decorators of views have in common: when a request is due, and the answer to one that is late or refused.

Under one of our hosts its settings hold; elsewhere (gevent's hub cannot have permits) those of this process.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Final

from greenlane import deadline
from greenlane.lanes.rules import LaneRules
from greenlane.settings import Settings, load
from greenlane.wiring import process

__all__ = ["LATE", "REFUSED", "due_ns", "retry_after_s"]

LATE: Final = "deadline exceeded\n"
REFUSED: Final = "too many calls in progress\n"


def due_ns(path: str, header: Callable[[str], str | None]) -> int:
    """Give when a request is due by its headers, each asked for by its name, or by its lane; monotonic ns, 0 = never.

    It counts from now: what the server did with the request before is not known here.
    """
    rules = _rules()
    environ = {name: header(asked) for asked, name in rules.headers if header(asked) is not None}
    now_ns = time.monotonic_ns()
    told_ns = deadline.due_ns(environ, environ, now_ns)
    lane_ns = rules.lanes.due_ns(path, now_ns) if rules.lanes.any else 0
    return min(told_ns, lane_ns) if told_ns and lane_ns else told_ns or lane_ns


def retry_after_s() -> int:
    """Give after how long who was refused may come again."""
    return _settings().retry_after_s


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
