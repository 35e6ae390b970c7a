"""gunicorn's worker: `gunicorn -k greenlane.hosts.gunicorn.Worker app:app`.

gunicorn's own thread worker (gthread, from release 27) with another front; each request runs as a job under CPU
permits. What gthread serves, it serves. docs/gunicorn.md says what it adds, what each gunicorn setting means here, and
where it differs on purpose.

- `worker` — the worker class: start, stop, health and metrics, a request's job
- `release` — which gunicorn this is, and whether the worker knows it
- `settings` — checks of gunicorn's and Greenlane's settings, in the arbiter
- `listeners` — accepts connections, or leaves them to a less busy worker
- `front` — the main thread: reads heads, closes idle connections, answers 504 on time, drains
- `dispatch` — hands connections over: to a thread, back to the main thread, away
- `expected` — which requests get no thread while too many of their kind wait for a permit
- `connection` — one connection: its owner, its bytes, whether a head is whole
- `http1` — one HTTP/1 request, on a thread
- `answers` — the response, the refusals, and who answers a request that has a deadline
- `tls`, `http2` — loaded only when the configuration allows them and a client uses them

The threads themselves: `greenlane.hosts.pool`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenlane.hosts.gunicorn.worker import Worker

__all__ = ["Worker"]


def __getattr__(name: str) -> type[Worker]:
    if name != "Worker":
        # Of an AttributeError gunicorn makes "TypeError: 'str' object is not callable", from release 19 to 27.
        if sys._getframe(1).f_globals.get("__name__") == "gunicorn.util":
            from greenlane.errors import HostError

            rule, hint = f"{__name__}.Worker", f"gunicorn -k {__name__}.Worker"
            raise HostError(
                "load gunicorn's worker", name="worker_class", value=f"{__name__}.{name}", rule=rule, hint=hint
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from greenlane.hosts.gunicorn.release import check_release

    check_release()  # before anything of it is imported that an older one lacks
    from greenlane.hosts.gunicorn import worker

    return worker.Worker
