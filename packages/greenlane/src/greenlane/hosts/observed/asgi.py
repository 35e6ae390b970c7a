"""uvicorn, hypercorn and gunicorn's own ASGI worker observed: each HTTP request is a job, from the arrival of its bytes
to the end of its response.

uvicorn in all its forms: `uvicorn app:app`, `uvicorn.run`, gunicorn with `uvicorn.workers.UvicornWorker`; h11 and
httptools; asyncio and uvloop. Several requests that wait on one connection arrive when their bytes did.

Quart names its routes by a probe here; Starlette, FastAPI and Litestar leave them in the scope (`asgi_app`); Django and
Falcon are named by `probes.routes`. A server that is not listed: `greenlane.hosts.asgi.Greenlane` around the
application.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Steps
from greenlane.hosts.observed.asgi_app import observed
from greenlane.probes.patching import Patches
from greenlane.probes.routes import method_of, mount, no_route
from greenlane.probes.wrapping import Make

__all__ = [
    "place_gunicorn",
    "place_hypercorn",
    "place_hypercorn_connection",
    "place_quart",
    "place_uvicorn",
    "place_uvicorn_end",
]

_recorder: Final = Recorder()
_UNKNOWN: Final = (0, "handler")
#: The stream writer of the connection that a task of hypercorn serves.
_CONNECTION: Final[ContextVar[Any]] = ContextVar("_CONNECTION", default=None)


def _begin_cycle(original: Callable[..., None], silent: list[bool]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if silent or not _recorder.recording():
            return
        if Steps.in_task():
            # h11 parses a request that is queued on its connection when the one before it has been answered.
            # `on_response`, the last one, is a method of that connection.
            last = kwargs.get("on_response", args[-1] if args else None)
            protocol = getattr(last, "__self__", None)
            self._greenlane_arrival = getattr(protocol, "_greenlane_arrival", _UNKNOWN)
        else:
            self._greenlane_arrival = Steps.arrival()

    return __init__


def _data_received(original: Callable[..., None], silent: list[bool]) -> Callable[..., None]:
    def data_received(self: Any, data: bytes) -> None:
        if not silent:
            self._greenlane_arrival = Steps.arrival()  # unknown while nothing is recorded: not an earlier one's
        original(self, data)

    return data_received


def _run_asgi(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def run_asgi(self: Any, app: Any) -> Any:
        if not silent and _recorder.recording():
            app = functools.partial(observed, app, "uvicorn", getattr(self, "_greenlane_arrival", _UNKNOWN))
        return original(self, app)

    return run_asgi


def place_uvicorn(patches: Patches, module: ModuleType) -> None:
    """Place the observers in one of `uvicorn.protocols.http`."""
    patches.replace(module.RequestResponseCycle, "__init__", _begin_cycle)
    patches.replace(module.RequestResponseCycle, "run_asgi", _run_asgi)
    if hasattr(module, "H11Protocol"):
        patches.replace(module.H11Protocol, "data_received", _data_received)


def place_uvicorn_end(patches: Patches, module: ModuleType) -> None:
    """Let the recording be written when a server of `uvicorn.server` ends."""

    # After it, uvicorn raises the signal that ended it once more: SIGTERM then ends the process without exit hooks.
    def make(original: Callable[..., Any], _silent: list[bool]) -> Callable[..., Any]:
        async def shutdown(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                await original(self, *args, **kwargs)
            finally:
                _recorder.flush()

        return shutdown

    patches.replace(module.Server, "shutdown", make)


def place_hypercorn_connection(patches: Patches, module: ModuleType) -> None:
    """Note which connection a task serves, in `hypercorn.asyncio.tcp_server`."""

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def run(self: Any) -> Any:
            if not silent:
                _CONNECTION.set(self.writer)
            return original(self)

        return run

    patches.replace(module.TCPServer, "run", make)


def _arrival(transport: Any, scope: Any) -> tuple[int, str]:
    """Of a request that begins now; its task may have been made when the answer before it had been sent."""
    connection = None if transport is None else transport.get_extra_info("socket")
    # Streams of HTTP/2 are read while others wait.
    if connection is None or not scope.get("http_version", "").startswith("1"):
        return Steps.arrival()
    return _recorder.arrival(connection.fileno())


def place_hypercorn(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `hypercorn.app_wrappers`: applications of ASGI, and of WSGI, which it runs on threads."""

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def __call__(self: Any, scope: Any, receive: Any, send: Any, *more: Any) -> Any:
            if silent or not _recorder.recording():
                return original(self, scope, receive, send, *more)

            def call(scope: Any, receive: Any, send: Any) -> Any:
                return original(self, scope, receive, send, *more)

            return observed(call, "hypercorn", _arrival(_CONNECTION.get(), scope), scope, receive, send)

        return __call__

    patches.replace(module.ASGIWrapper, "__call__", make)
    patches.replace(module.WSGIWrapper, "__call__", make)


def place_gunicorn(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `gunicorn.asgi.protocol`, of gunicorn's own ASGI worker."""

    def make(original: Callable[..., None], silent: list[bool]) -> Callable[..., None]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if silent:
                return
            app = self.app

            def call(scope: Any, receive: Any, send: Any) -> Any:
                if silent or not _recorder.recording():
                    return app(scope, receive, send)
                return observed(app, "gunicorn.asgi", _arrival(self.transport, scope), scope, receive, send)

            self.app = call

        return __init__

    patches.replace(module.ASGIProtocol, "__init__", make)


def place_quart(patches: Patches, module: ModuleType) -> None:
    """Place the probe that names routes in `quart.app`."""
    make: Make = _named_by_rule
    patches.replace(module.Quart, "full_dispatch_request", make)


def _named_by_rule(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def full_dispatch_request(self: Any, request_context: Any = None) -> Any:
        if not silent and _recorder.job():
            request = getattr(request_context, "request", None)
            rule = getattr(request, "url_rule", None)
            if request is not None:
                mounted = mount(request.root_path)
                _recorder.name(f"{method_of(request.method)} {mounted + rule.rule if rule else no_route(mounted)}")
        return original(self, request_context)

    return full_dispatch_request
