"""Who schedules the code that runs now: an event loop, gevent's hub, or the operating system alone.

Nothing is imported for asking: what has not been imported cannot be running.
"""

from __future__ import annotations

import sys
from typing import Any

from greenlane.errors import PlacementError

__all__ = ["hub", "in_hub", "loop"]


def loop() -> Any:
    """Give the asyncio or uvloop loop that runs on this thread now; None = there is none.

    Raises:
        PlacementError: it is trio's or eventlet's, whose code waits in its own way.
    """
    events: Any = sys.modules.get("asyncio.events")
    running = None if events is None else events._get_running_loop()
    if running is None:
        if "trio" in sys.modules and _in_trio():
            raise _foreign("trio", "await trio.to_thread.run_sync(greenlane.run, fn, x)")
        if "eventlet.patcher" in sys.modules and sys.modules["eventlet.patcher"].is_monkey_patched("thread"):
            raise _foreign("eventlet", "eventlet.tpool.execute(fn, x)")
    return running


def hub() -> Any:
    """Give the gevent hub of this thread, if it has one: then other greenlets may want to run while one waits."""
    local: Any = sys.modules.get("gevent._hub_local")
    return None if local is None else local.get_hub_if_exists()


def in_hub(found: Any) -> bool:
    """Whether the code that runs now is called by the hub itself, which must never wait."""
    return sys.modules["greenlet"].getcurrent() is found


def _in_trio() -> bool:
    in_trio_run = getattr(getattr(sys.modules["trio"], "lowlevel", None), "in_trio_run", None)
    return in_trio_run is not None and bool(in_trio_run())


def _foreign(loop: str, hint: str) -> PlacementError:
    return PlacementError(
        "place a function", name="event loop", value=loop, rule="asyncio, uvloop, gevent or a thread", hint=hint
    )
