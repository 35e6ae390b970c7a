"""Our placements, pinned and chosen: the same call gives an awaitable on a loop and the result in a greenlet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import greenlane
from greenlane.lab.environment import usable_cores
from greenlane.lanes.arena.executor import ArenaExecutor
from greenlane.lanes.arena.options import ArenaOptions
from greenlane.lanes.placed import Call, here, on_hub, on_loop

__all__ = ["chosen", "pinned"]


def pinned(placement: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give `fn` as it is placed: "thread", "process" or "auto" (chosen)."""
    if placement == "process":
        return _in_worker(fn)
    if placement == "thread":
        fn = greenlane.heavy(fn)
    return lambda *args: greenlane.run(fn, *args)


def chosen(fn: Callable[..., Any]) -> tuple[str, str]:
    """Where calls of `fn` go by now, and why."""
    from greenlane.bootstrap_placement import placement
    from greenlane.lanes.placed.functions import name_of

    weight, expected_ms, calls = placement().learned()[name_of(fn)]
    return ("inline" if weight == "light" else "thread"), f"{weight}: {expected_ms:.3g} ms after {calls} calls"


def _in_worker(fn: Callable[..., Any]) -> Callable[..., Any]:
    workers = ArenaExecutor(ArenaOptions(workers=max(1, usable_cores() - 1)))

    async def awaited(call: Call, loop: Any) -> Any:
        await on_loop.wait(workers, call, loop)
        return call.result()

    def placed(*args: Any) -> Any:
        call, loop = Call(fn, args), here.loop()
        if loop is not None:
            return awaited(call, loop)
        on_hub.wait(workers, call, here.hub())
        return call.result()

    return placed
