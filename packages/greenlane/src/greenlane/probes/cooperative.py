"""Green threads under the service: said at the start, because permits on top of them would do nothing.

Under `gevent.monkey.patch_all()` (and eventlet's) a blocking call switches greenlets inside one thread. A CPU permit is
held by a thread, so every greenlet would share it: it would never be waited for and never mean anything.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from greenlane.errors import HostError
from greenlane.probes.imports import forget, when_imported

__all__ = [
    "explain_gevent",
    "is_eventlets",
    "refuse_green_threads",
    "threads_are_greenlets",
    "when_threads_are_greenlets",
]


def explain_gevent() -> str | None:
    """Say what to do when gevent or eventlet has replaced this process's sockets; None when neither has.

    Imports neither of them.
    """
    patched_by = _patched_by()
    if patched_by is None:
        return None
    return (
        f"{patched_by} has replaced this process's sockets by cooperative ones, so its requests share one thread and a "
        "CPU permit, which a thread holds, could not order them. Run the service in threads: remove the monkey patch "
        "and start it with `gunicorn -k greenlane.hosts.gunicorn.Worker` (as many waiting requests, the same memory); "
        "docs/gunicorn.md says what to check."
    )


def refuse_green_threads() -> None:
    """Raise HostError with that explanation when the process is monkey-patched."""
    why = explain_gevent()
    if why is not None:
        raise HostError(
            "install the probes for threads",
            name="monkey-patched by",
            value=_patched_by(),
            rule="a process whose sockets and threads are CPython's own",
            hint=why,
        )


def threads_are_greenlets() -> bool:
    """Whether gevent has replaced `threading`: what is started as a thread, a pool's too, runs in the loop."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def when_threads_are_greenlets(tell: Callable[[], None]) -> Callable[[], None]:
    """Call `tell` once when gevent replaces `threading`, if it ever does; at once if it has. Gives what undoes that."""
    waiting = [tell]

    def patched(event: object = None) -> None:
        # gevent calls its subscribers in the middle of patching: nothing may come out of here.
        if waiting and threads_are_greenlets():
            with contextlib.suppress(Exception):
                waiting.pop()()

    def subscribe(events: Any) -> None:
        if waiting:
            events.subscribers.append(patched)

    def undo() -> None:
        waiting.clear()
        forget("gevent.events", subscribe)
        events: Any = sys.modules.get("gevent.events")
        if events is not None and patched in events.subscribers:
            events.subscribers.remove(patched)

    patched()
    # gevent imports it when it is about to patch.
    when_imported("gevent.events", subscribe)
    return undo


def is_eventlets() -> bool:
    """Whether eventlet has replaced this process's sockets."""
    eventlet = sys.modules.get("eventlet.patcher")
    patched = getattr(eventlet, "is_monkey_patched", None)  # None: its import goes on
    return patched is not None and bool(patched("socket"))


def _patched_by() -> str | None:
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("socket"):
        return "gevent.monkey"
    return "eventlet.monkey_patch" if is_eventlets() else None
