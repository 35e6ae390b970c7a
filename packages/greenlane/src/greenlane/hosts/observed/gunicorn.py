"""gunicorn's own workers observed: what the worker calls as its application is put under observation.

Covers `sync`, `gthread`, `gevent` and its `pywsgi` variant. Workers that are no WSGI servers (uvicorn's, aiohttp's,
tornado's) are left alone. Greenlane's own worker opens its jobs itself, from the accept on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Switches
from greenlane.hosts.observed.wsgi import observed
from greenlane.probes.patching import Patches

__all__ = ["place"]

#: (module, class, name): the worker is of the first that it derives from.
_KINDS: Final = (
    ("gunicorn.workers.ggevent", "GeventWorker", "gunicorn.gevent"),
    ("gunicorn.workers.base_async", "AsyncWorker", "gunicorn.async"),
    ("gunicorn.workers.gthread", "ThreadWorker", "gunicorn.gthread"),
    ("gunicorn.workers.sync", "SyncWorker", "gunicorn.sync"),
)
#: The arbiter ends this worker because it has not heard from it.
_ABORT: Final = "abort"

_recorder: Final = Recorder()


def place(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `gunicorn.workers.base`."""

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def load_wsgi(self: Any) -> Any:
            result = original(self)
            if not silent:
                host = _host_of(self)
                if host:
                    self.wsgi = observed(self.wsgi, host, Switches.spawned_ns if host == "gunicorn.gevent" else None)
            return result

        return load_wsgi

    def abort(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def handle_abort(self: Any, *args: Any) -> Any:
            if not silent:
                _recorder.mark(_ABORT)  # what is in progress now kept the heartbeat from the arbiter
            return original(self, *args)

        return handle_abort

    patches.replace(module.Worker, "load_wsgi", make)
    patches.replace(module.Worker, "handle_abort", abort)


def _host_of(worker: object) -> str:
    """Name the host by its worker class; "" = its application is none of WSGI, as far as we know, or it is ours."""
    if getattr(worker, "opens_jobs", False):
        return ""
    for module, name, host in _KINDS:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(worker, kind):
            return host
    return ""
