"""granian observed: each request of a WSGI, ASGI or RSGI application is a job, until all of its response is granian's.

granian reads in Rust and hands requests over by a queue that nobody sees into. ASGI and RSGI name the peer's address
and port, which tells the connection. WSGI names the address alone: its clock is "handler", and what a request has
waited for one of granian's threads is not in its latency. So it is with streams of HTTP/2, which share a connection.

Workers that run when the recording begins are recorded, too. `--task-impl rust` steps coroutines unseen: no jobs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

from greenlane._native import Recorder, Steps
from greenlane.hosts.observed.asgi_app import observed
from greenlane.hosts.observed.front_clock import READ, arrival_and_due
from greenlane.hosts.observed.wsgi import Requests
from greenlane.probes.asyncio import JOB
from greenlane.probes.patching import Patches
from greenlane.probes.routes import shape
from greenlane.probes.wrapping import Make

__all__ = ["place_asgi", "place_futures", "place_rsgi", "place_wsgi"]

_HOST: Final = "granian"
_FAILED: Final = 500
_UNKNOWN: Final = (0, "handler")
_HEADERS: Final = tuple(READ.items())
#: Of `RSGIHTTPProtocol`: each begins the response; all but the last one are the whole of it.
_RESPONSES: Final = ("response_empty", "response_str", "response_bytes", "response_file", "response_file_range")
_STREAM: Final = "response_stream"

_recorder: Final = Recorder()


def place_wsgi(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `granian.wsgi`."""
    requests = Requests(_HOST)

    def run(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def _runner(proto: Any, scope: Any) -> Any:
            job = 0 if silent else requests.open(scope)
            status = _FAILED
            try:
                status = original(proto, scope)
                return status
            finally:
                requests.close(job, status)

        return _runner

    _place_in(patches, module, "_callback_wrapper", "_runner", run)


def place_asgi(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `granian.asgi`."""

    def run(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def _runner(scope: Any, proto: Any) -> Any:
            if silent or not _recorder.recording():
                return original(scope, proto)

            def call(scope: Any, receive: Any, send: Any) -> Any:
                return original(scope, SimpleNamespace(receive=receive, send=send))

            arrival = _arrival(scope["http_version"], *(scope.get("client") or ()))
            return observed(call, _HOST, arrival, scope, proto.receive, proto.send)

        return _runner

    _place_in(patches, module, "_callback_wrapper", "_runner", run)


def place_futures(patches: Patches, module: ModuleType) -> None:
    """Place the observer of RSGI's requests in `granian._futures`."""

    def run(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        async def future_watcher(watcher: Any) -> Any:
            scope = watcher.scope
            if silent or getattr(scope, "proto", "") != "http" or not Steps.in_task():
                return await original(watcher)
            job = _open(scope)
            if not job:
                return await original(watcher)
            JOB.set(job)
            _statuses[job] = 0
            try:
                return await original(watcher)
            finally:
                # Without a response granian sends its own.
                _close(job, _FAILED)

        return future_watcher

    _place_in(patches, module, "_future_watcher_wrapper", "future_watcher", run)


def place_rsgi(patches: Patches, module: ModuleType) -> None:
    """See the responses of RSGI's protocol, which `granian.rsgi` names."""
    for name in (*_RESPONSES, _STREAM):
        patches.replace(module.HTTPProtocol, name, _answering(whole=name != _STREAM))


#: Status of each RSGI request that has not ended; 0 = none yet.
_statuses: Final[dict[int, int]] = {}


def _answering(*, whole: bool) -> Make:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def response(self: Any, status: int = 200, *more: Any, **named: Any) -> Any:
            answer = original(self, status, *more, **named)
            job = 0 if silent else _recorder.job()
            if job in _statuses:
                _statuses[job] = status
                if whole:
                    _close(job)
            return answer

        return response

    return make


def _arrival(version: str, peer: str = "", port: str | int = "") -> tuple[int, str]:
    # granian's ports are text, and a Unix socket's peer has none.
    is_known = version.startswith("1") and str(port).isdecimal()
    return _recorder.arrival_from(peer.strip("[]"), int(port)) if is_known else _UNKNOWN


def _open(scope: Any) -> int:
    # As in `asgi_app`.
    _recorder.attach(0)
    peer, _, port = scope.client.rpartition(":")
    arrival_ns, clock = _arrival(scope.http_version, peer, port)
    headers, due_ns = scope.headers, 0
    told = {name: headers.get(header) for header, name in _HEADERS if header in headers}
    if told:
        arrival_ns, clock, due_ns = arrival_and_due(told, (arrival_ns, clock), peer)
    job = _recorder.open(arrival_ns=arrival_ns, spawn_ns=Steps.born_ns(), deadline_ns=due_ns, clock=clock, host=_HOST)
    if job:
        _recorder.name(shape(scope.method, scope.path))
    return job


def _close(job: int, status: int = 0) -> None:
    """End a job; the first call counts."""
    sent = _statuses.pop(job, None)
    if sent is not None:
        _recorder.close(job, sent or status)


def _place_in(patches: Patches, module: ModuleType, factory: str, inner: str, run: Make) -> None:
    """Let `run` do what the functions `inner` do that `factory` of `module` makes, and has made."""
    kind = f"{factory}.<locals>.{inner}"

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if not silent:
                for function in _within(made, module):
                    lead(function)
            return made

        return wrapper

    def lead(function: FunctionType) -> None:
        # By its code: granian gives the function the application's name.
        if function.__code__.co_qualname == kind:
            patches.replace(SimpleNamespace(__name__=kind, made=function), "made", run)

    patches.replace(module, factory, make)
    for found in gc.get_objects():
        if type(found) is FunctionType and found.__globals__ is module.__dict__:
            lead(found)


def _within(made: Any, module: ModuleType) -> Iterator[FunctionType]:
    """`made` and the functions of `module` that it calls: the one that logs accesses calls the plain one."""
    if type(made) is FunctionType and made.__globals__ is module.__dict__:
        yield made
        for cell in made.__closure__ or ():
            yield from _within(cell.cell_contents, module)
