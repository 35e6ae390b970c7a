"""`http.server` and what is built on it, observed: werkzeug's development server (`flask run`, `app.run()`), wsgiref,
Django's `runserver`, plain request handlers.

A job opens when a request's head is read, and closes when its handler returns.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder
from greenlane.hosts.observed import front_clock
from greenlane.probes.patching import Patches
from greenlane.probes.routes import shape

__all__ = ["place"]

#: Attribute of a request handler while it is in `handle_one_request`: [job, status].
_OPEN: Final = "_greenlane_open"
_FAILED: Final = 500


def place(patches: Patches, module: ModuleType) -> None:
    """Place the observers in `http.server`."""
    recorder = Recorder()
    kind = module.BaseHTTPRequestHandler

    def make_one(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def handle_one_request(self: Any) -> Any:
            if silent or not recorder.recording():
                return original(self)
            request = self.__dict__[_OPEN] = [0, 0]
            try:
                return original(self)
            except BaseException:
                request[1] = request[1] or _FAILED
                raise
            finally:
                self.__dict__.pop(_OPEN, None)
                recorder.close(*request)

        return handle_one_request

    def make_parse(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def parse_request(self: Any) -> Any:
            parsed = original(self)
            request = self.__dict__.get(_OPEN)
            if parsed and request is not None:
                request[0] = _open_job(recorder, self)
            return parsed

        return parse_request

    def make_status(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def send_response_only(self: Any, code: Any, message: Any = None) -> Any:
            request = self.__dict__.get(_OPEN)
            if request is not None:
                request[1] = int(code)
            return original(self, code, message)

        return send_response_only

    patches.replace(kind, "handle_one_request", make_one)
    patches.replace(kind, "parse_request", make_parse)
    patches.replace(kind, "send_response_only", make_status)


def _open_job(recorder: Recorder, request: Any) -> int:
    if request.headers.get("Upgrade", "").lower() == "websocket":
        return 0
    told = next((request.headers[name] for name in front_clock.NAMES if request.headers.get(name)), "")
    believed = told and front_clock.is_front(str(request.client_address[0]) if request.client_address else None)
    arrival_ns, clock = front_clock.arrival_ns(told) if believed else 0, "header"
    if not arrival_ns:
        arrival_ns, clock = recorder.arrival(request.connection.fileno())
    job = recorder.open(arrival_ns=arrival_ns, clock=clock, host=type(request).__module__)
    if job:
        recorder.name(shape(request.command, request.path.partition("?")[0]))
    return job
