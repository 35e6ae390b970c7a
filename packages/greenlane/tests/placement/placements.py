"""A placement of a test's own, and what its calls are taught."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from greenlane.lanes.permits import make_permits
from greenlane.placement import Placement
from greenlane.policy import placed as placed_rules
from greenlane.settings import Settings


class Placed:
    """A placement with permits of its own; call it as `greenlane.run`."""

    def __init__(self, **settings: Any) -> None:
        most_names, inline_ms = settings.pop("max_routes", 512), settings.pop("inline_ms", placed_rules.INLINE_MS)
        given = Settings(**settings)
        self.permits = make_permits(given, mode=given.mode)
        with patch.object(placed_rules, "INLINE_MS", inline_ms):
            self.placement = Placement(given, lambda: self.permits)
        self.placement._most_names = most_names
        self.lane = self.placement.lane

    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self.placement.run(fn, args, kwargs)


@contextlib.contextmanager
def placed(**settings: Any) -> Iterator[Placed]:
    """A placement that is closed in the end."""
    made = Placed(**settings)
    try:
        yield made
    finally:
        made.lane.close(2)


LOOPS = ("asyncio", "uvloop")


def on_loop(name: str, program: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a program on a new loop of that name."""
    if name == "asyncio":
        return asyncio.run(program())
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(program())
