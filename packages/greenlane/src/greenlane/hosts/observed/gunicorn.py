"""gunicorn's own workers observed: what the worker calls as its application is put under observation.

Covers `sync`, `gthread`, `gevent` and its `pywsgi` variant. Workers that are no WSGI servers (uvicorn's, aiohttp's,
tornado's) are left alone. Greenlane's own worker opens its jobs itself, from the accept on.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Switches
from greenlane.hosts.observed.wsgi import Environ, Observed, StartResponse, observed
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
    for worker in _running(module.Worker):
        patches.replace(worker, "wsgi", functools.partial(_observe, worker))


def _running(kind: type) -> Iterator[Any]:
    """The worker of this process that has loaded its application already: the recording begins while it serves."""
    kinds: list[Any] = [kind]
    for each in kinds:
        kinds += [below for below in each.__subclasses__() if below not in kinds]
    found: Any
    for each in kinds:
        for found in gc.get_referrers(each):
            if type(found) is each and not isinstance(found.__dict__.get("wsgi"), Observed | type(None)):
                if found.pid == os.getpid() and _host_of(found):
                    yield found


def _observe(worker: object, original: Any, silent: list[bool]) -> Any:
    host = _host_of(worker)
    app = observed(original, host, Switches.spawned_ns if host == "gunicorn.gevent" else None)

    def wsgi(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return (original if silent else app)(environ, start_response)  # type: ignore[no-any-return]

    return wsgi


def _host_of(worker: object) -> str:
    """Name the host by its worker class; "" = its application is none of WSGI, as far as we know, or it is ours."""
    if getattr(worker, "opens_jobs", False):
        return ""
    for module, name, host in _KINDS:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(worker, kind):
            return host
    return ""
