"""aiohttp's server observed: each request is a job, from the arrival of its bytes until its response is written."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Steps
from greenlane.hosts.observed.front_clock import READ, arrival_and_due
from greenlane.probes.asyncio import JOB
from greenlane.probes.patching import Patches
from greenlane.probes.routes import NO_ROUTE, method_of, shape

__all__ = ["place"]

_FAILED: Final = 500
_HEADERS: Final = tuple(READ.items())
#: Messages of lost connections are never handled; more than these are forgotten. Arbitrary.
_MOST_WAITING: Final = 4096

_recorder: Final = Recorder()
#: When the bytes of a message came that is not handled yet: id of the message -> (message, arrival).
_arrivals: Final[dict[int, tuple[Any, tuple[int, str]]]] = {}


def _data_received(original: Callable[..., None], silent: list[bool]) -> Callable[..., None]:
    def data_received(self: Any, data: bytes) -> None:
        if silent or not _recorder.recording():
            return original(self, data)
        before = len(self._messages)
        original(self, data)
        for number in range(before, len(self._messages)):
            if len(_arrivals) >= _MOST_WAITING:
                _arrivals.clear()
            message = self._messages[number][0]
            _arrivals[id(message)] = message, Steps.arrival()
        return None

    return data_received


def _handle_request(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def _handle_request(self: Any, request: Any, *more: Any) -> Any:
        coroutine = original(self, request, *more)
        if silent or not _recorder.recording():
            return coroutine
        return _observe(coroutine, request)

    return _handle_request


async def _observe(coroutine: Any, request: Any) -> Any:
    """Run one request as a job of this task."""
    # An eager task (3.12+) begins within its connection's, which may have had a request before.
    _recorder.attach(0)
    job = _open(request)
    if not job:
        return await coroutine
    JOB.set(job)
    _recorder.name(shape(request.method, request.path))
    status = _FAILED
    try:
        answer = await coroutine
        status = answer[0].status
        return answer
    finally:
        _recorder.name(_route_of(request))
        _recorder.close(job, status)


def _open(request: Any) -> int:
    _, (arrival_ns, clock) = _arrivals.pop(id(request._message), (None, (0, "handler")))
    headers = request.headers
    if headers.get("Upgrade", "").lower() == "websocket":
        return 0
    told = {name: headers[header] for header, name in _HEADERS if header in headers}
    due_ns = 0
    if told:
        arrival_ns, clock, due_ns = arrival_and_due(told, (arrival_ns, clock), _peer(request))
    return _recorder.open(
        arrival_ns=arrival_ns, spawn_ns=Steps.born_ns(), deadline_ns=due_ns, clock=clock, host="aiohttp"
    )


def _peer(request: Any) -> str | None:
    """The connection's other end; not `remote`, which an application may set."""
    peer = getattr(request, "_transport_peername", None)
    return str(peer[0]) if isinstance(peer, tuple | list) and peer else None


def _route_of(request: Any) -> str:
    if not hasattr(request, "match_info"):  # of a low-level `web.Server`, which has no routes
        return shape(request.method, request.path)
    resource = getattr(getattr(request.match_info, "route", None), "resource", None)
    canonical = getattr(resource, "canonical", None)
    if canonical is None:
        return f"{method_of(request.method)} {NO_ROUTE}"
    return f"{method_of(request.method)} {canonical}"


def place(patches: Patches, module: ModuleType) -> None:
    """Place the observers in `aiohttp.web_protocol`."""
    patches.replace(module.RequestHandler, "data_received", _data_received)
    patches.replace(module.RequestHandler, "_handle_request", _handle_request)
