"""Tornado's HTTP server observed: each request is a job, from the arrival of its bytes to the end of its response.

An application, a router, a callback or a WSGI application in `WSGIContainer` may answer. A job opens in the task of its
connection when the head is parsed, and the tasks that answer it are its children. `probes.routes` names it by the rule
that matched. A WebSocket is no job.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Steps
from greenlane.hosts.observed.front_clock import READ, arrival_and_due
from greenlane.probes.asyncio import JOB
from greenlane.probes.patching import Patches
from greenlane.probes.routes import shape

__all__ = ["place"]

#: Attribute of one request's connection object: its job, while that is open.
_OPEN: Final = "_greenlane_job"
_HEADERS: Final = tuple(READ.items())

_recorder: Final = Recorder()


def _parse_headers(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def _parse_headers(self: Any, data: bytes) -> Any:
        start_line, headers = found = original(self, data)
        if not (silent or self.is_client) and _recorder.recording():
            words = start_line.split(" ")
            if len(words) == 3 and headers.get("Upgrade", "").lower() != "websocket":
                with contextlib.suppress(Exception):  # a version that looks different must not fail the request
                    _open(self, words[0], words[1], headers)
        return found

    return _parse_headers


def _open(connection: Any, method: str, target: str, headers: Any) -> None:
    arrival_ns, clock = _recorder.arrival(connection.stream.socket.fileno())
    told = {name: headers[header] for header, name in _HEADERS if header in headers}
    due_ns = 0
    if told:
        address = getattr(connection.context, "address", None)
        peer = str(address[0]) if isinstance(address, tuple) and address else None
        arrival_ns, clock, due_ns = arrival_and_due(told, (arrival_ns, clock), peer)
    _recorder.attach(0)  # The task of the connection worked for the request before.
    born_ns = Steps.born_ns()
    job = _recorder.open(
        arrival_ns=arrival_ns,
        # A connection's first request only: for later ones its task was there already.
        spawn_ns=born_ns if born_ns >= arrival_ns else 0,
        deadline_ns=due_ns,
        clock=clock,
        host="tornado",
    )
    if job:
        JOB.set(job)
        connection.__dict__[_OPEN] = job
        _recorder.name(shape(method, target.partition("?")[0]))


def _finish(original: Callable[[Any], None], _silent: list[bool]) -> Callable[[Any], None]:
    # The connection is told of the end by its loop, later than the client where others run meanwhile.
    def finish(self: Any) -> None:
        original(self)
        if not self.stream.writing():
            _close(self)

    return finish


def _clear_callbacks(original: Callable[[Any], None], _silent: list[bool]) -> Callable[[Any], None]:
    # Every way in which a request ends leads here: it is answered, its client is gone, or it is given up.
    def _clear_callbacks(self: Any) -> None:
        _close(self)
        original(self)

    return _clear_callbacks


def _close(connection: Any) -> None:
    job = connection.__dict__.pop(_OPEN, 0)
    if job:
        _recorder.close(job, getattr(connection._response_start_line, "code", 0))


def place(patches: Patches, _module: ModuleType) -> None:
    """Place the observers beneath `tornado.httpserver`."""
    connection = sys.modules["tornado.http1connection"].HTTP1Connection
    patches.replace(connection, "_parse_headers", _parse_headers)
    patches.replace(connection, "finish", _finish)
    patches.replace(connection, "_clear_callbacks", _clear_callbacks)
