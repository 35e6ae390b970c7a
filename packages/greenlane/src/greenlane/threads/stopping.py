"""A tool of `sys.monitoring` by which threads that compute are stopped at a bytecode boundary (CPython 3.12 and later).

The tool has local events on a few code objects, from the moment that a thread is asked to stand still until it does
(`crates/permits/src/boundaries.rs`). It has an id of its own, which no known program uses; where both are taken nothing
is stopped. Debuggers, coverage and profilers have theirs, and see what they see without us.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, Final

from greenlane import _native

__all__ = ["give_back", "take"]

_NAME: Final = "greenlane"
#: Those that CPython gives no meaning: 0 is debuggers', 1 coverage's, 2 profilers', 5 optimizers'.
_IDS: Final = (4, 3)
#: Our own code, which is never watched.
_OURS: Final = str(Path(__file__).resolve().parents[1]) + "/"

_tool: int | None = None


def take() -> bool:
    """Take a tool's id, and let threads be stopped by it. False: there is none, and nothing is stopped. Idempotent."""
    global _tool
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    if _tool is not None:
        return bool(monitoring.get_tool(_tool) == _NAME)
    free = (each for each in _IDS if monitoring.get_tool(each) is None)
    tool = next(free, None)
    if tool is None:
        return False
    monitoring.use_tool_id(tool, _NAME)
    _tool = tool
    for event in _events(monitoring):
        monitoring.register_callback(tool, event, _native.boundary)
    calls = functools.partial(monitoring.set_local_events, tool), functools.partial(monitoring.get_tool, tool)
    _native.boundaries_of(calls, sum(_events(monitoring)), _OURS)
    return True


def give_back() -> bool:
    """Give the tool id back; nothing is left. Always False: no thread is stopped from now on. Idempotent."""
    global _tool
    monitoring: Any = getattr(sys, "monitoring", None)
    if _tool is not None:
        _native.boundaries_of(None)
        if monitoring.get_tool(_tool) == _NAME:
            for event in _events(monitoring):
                monitoring.register_callback(_tool, event, None)
            monitoring.free_tool_id(_tool)
        _tool = None
    return False


def _events(monitoring: Any) -> tuple[int, ...]:
    """Give what lies between any two calls and jumps."""
    events = monitoring.events
    return events.LINE, events.JUMP, events.PY_RETURN
