"""An ASGI application under observation: each HTTP request is a job, until the last part of its response is sent.

What the server and the application see of each other is what they gave; `send` alone is ours, to know the status and
the end. Work that goes on after the response (background tasks) is no longer part of the job's time, but keeps its
name when others wait for it.

Cost: some 4 us a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from greenlane._native import Recorder, Steps
from greenlane.hosts.asgi_routes import route_of
from greenlane.hosts.observed.front_clock import READ, arrival_and_due
from greenlane.probes.asyncio import JOB
from greenlane.probes.routes import named_below, note_handler, shape

__all__ = ["Application", "observed", "route_of"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[Any]]

_FAILED: Final = 500
#: Headers that are read: as ASGI writes them -> as WSGI does.
_WANTED: Final = {name.lower().encode("ascii"): theirs for name, theirs in READ.items()}

_recorder: Final = Recorder()


async def observed(
    app: Application, host: str, arrival: tuple[int, str], scope: Scope, receive: Receive, send: Send
) -> Any:
    """Run one request of `app` as a job of this task.

    Args:
        app: the application.
        host: the server, such as "uvicorn".
        arrival: (monotonic ns, clock) of the request's bytes; 0 = unknown.
        scope, receive, send: the server's.
    """
    # A nested call is part of its job: the middleware under an observed server.
    # A task without steps that we see (granian's own) shares its unit with everything else on the loop.
    if scope["type"] != "http" or not _recorder.recording() or not Steps.in_task() or JOB.get() in named_below:
        return await app(scope, receive, send)
    # This task may have been made within another request: the one before it on a pipelined connection.
    _recorder.attach(0)
    job = _open(host, arrival, scope)
    if not job:
        return await app(scope, receive, send)
    JOB.set(job)
    _recorder.name(shape(scope.get("method", ""), scope.get("path", "")))
    answer = _Answer(job, scope, send)
    try:
        return await app(scope, receive, answer.send)
    except BaseException:
        answer.close(_FAILED)
        raise
    finally:
        answer.close()
        _recorder.attach(0)


def _open(host: str, arrival: tuple[int, str], scope: Scope) -> int:
    arrival_ns, clock = arrival
    due_ns = 0
    told = {_WANTED[name]: value.decode("latin-1") for name, value in scope["headers"] if name in _WANTED}
    if told:
        arrival_ns, clock, due_ns = arrival_and_due(told, (arrival_ns, clock), (scope.get("client") or (None,))[0])
    return _recorder.open(arrival_ns=arrival_ns, spawn_ns=Steps.born_ns(), deadline_ns=due_ns, clock=clock, host=host)


class _Answer:
    """One response: its status, and the job that ends with it."""

    __slots__ = ("_has_trailers", "_job", "_scope", "_send", "_status")

    def __init__(self, job: int, scope: Scope, send: Send) -> None:
        self._job = job
        named_below[job] = False
        self._scope = scope
        self._send = send
        self._status = 0
        self._has_trailers = False

    def send(self, message: Message) -> Awaitable[None]:
        """Send `message`; the last one ends the job."""
        kind = message["type"]
        if kind == "http.response.start":
            self._status = message["status"]
            self._has_trailers = bool(message.get("trailers"))
            self._name()
        elif kind == "http.response.body":
            if not message.get("more_body") and not self._has_trailers:
                return self._send_last(message)
        elif kind == "http.response.pathsend" or (
            kind == "http.response.trailers" and not message.get("more_trailers")
        ):
            return self._send_last(message)
        return self._send(message)

    async def _send_last(self, message: Message) -> None:
        await self._send(message)
        job = self._job
        self.close()
        # What it does from here on is in nobody's way to an answer of its own, but may be in others'.
        _recorder.attach(job)

    def close(self, status: int = 0) -> None:
        """End the job; the first call counts. `status`: if none was sent."""
        job, self._job = self._job, 0
        if job:
            if not self._status:
                self._name()
            named_below.pop(job, None)
            _recorder.close(job, self._status or status)

    def _name(self) -> None:
        if named_below.get(self._job):
            return
        route = route_of(self._scope)
        if route is not None:
            _recorder.name(route)
            note_handler(route, self._scope.get("endpoint"))
