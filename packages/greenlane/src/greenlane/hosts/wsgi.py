"""WSGI middleware: one line that puts CPU permits into any threaded server.

    app = Greenlane(app)

Works under gunicorn's gthread, waitress, cheroot, granian's WSGI: any server that runs each request on a thread.
mod_wsgi is untested, and needs the main interpreter (`WSGIApplicationGroup %{GLOBAL}`). A middleware has two limits.
Its clock starts when the server calls it, not when the request was accepted. It cannot answer while the work goes on: a
late answer becomes a 504 when the application returns, when one of its blocking calls raises DeadlineExceeded, or at
`greenlane.checkpoint()`. `greenlane.hosts.gunicorn.Worker` does both.

Cost: `make bench`, "greenlane-middleware"; about 2 us a chunk of an iterable response.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final

from greenlane import phase
from greenlane._native import Paused
from greenlane.errors import DeadlineExceeded
from greenlane.settings import Settings
from greenlane.wiring import process

__all__ = ["Greenlane"]

Environ = dict[str, Any]
StartResponse = Callable[..., Callable[[bytes], object]]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
_ExceptionTriple = tuple[type[BaseException], BaseException, TracebackType]

_LATE: Final = b"deadline exceeded\n"
_REFUSED: Final = b"too many requests in progress\n"


class Greenlane:
    """The middleware. Call it like the application that it wraps."""

    def __init__(
        self,
        app: Application,
        *,
        settings: Settings | None = None,
        route: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        """Wrap `app`.

        Args:
            app: the WSGI application.
            settings: None = from `greenlane.toml` and the environment.
            route: names a request's route from its environ, for frameworks that Greenlane does not know; it must give
                few distinct names ("GET /items/<id>", never the raw path). None = as the framework names it.

        Raises:
            GreenlaneError: see `greenlane.wiring.process.start`.
        """
        self.app = app
        self._route = route
        self._running = process.start(settings, host="wsgi", worker_index=os.getpid())
        self._limited = self._running.limits.any

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Run one request as a job."""
        running = self._running
        if self._limited:
            lane = running.limits.admit(environ.get("PATH_INFO", ""))
            if lane is None:
                return _refuse(start_response, running.settings.retry_after_s)
            if lane:
                return self._serve_in_lane(lane, environ, start_response)
        return self._job(environ, start_response)

    def _job(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        running, app = self._running, self.app
        # By names of their own: CPython 3.11 looks for a method first where an attribute is called.
        open_job, deadline_ns, close_job = running.open, running.deadline_ns, running.close
        if not open_job(environ, 0):
            return app(environ, start_response)
        try:
            if self._route is not None:
                phase.name(self._route(environ))
            due_ns = deadline_ns()
            body = _in_time(app, environ, start_response, due_ns) if due_ns else app(environ, start_response)
        except BaseException:
            close_job()
            raise
        if isinstance(body, (list, tuple)):
            close_job()
            return body
        try:
            wrapper = environ.get("wsgi.file_wrapper")  # Any callable by PEP 3333; only a class can be asked about.
            sent_by_server = isinstance(wrapper, type) and isinstance(body, wrapper)
            sized = hasattr(body, "__len__")
        except BaseException:
            close_job()
            raise
        if sent_by_server:
            close_job()  # Possibly with sendfile.
            return body
        paused = running.pause()
        if paused is None:
            return body
        return _SizedBody(body, paused, running) if sized else _Body(body, paused, running)

    def _serve_in_lane(self, lane: str, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        end = self._running.limits.end
        try:
            body = self._job(environ, start_response)
        except BaseException:
            end(lane)
            raise
        if isinstance(body, (list, tuple)):
            end(lane)
            return body
        return _CountedBody(body, lambda: end(lane))


class _Body:
    """An iterable response whose chunks are made as phases of its job, on whatever thread the server iterates."""

    def __init__(self, body: Iterable[bytes], paused: Paused, running: process.Running) -> None:
        self._body = body
        self._iterator: Iterator[bytes] | None = None
        self._paused: Paused | None = paused
        self._running = running

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        resumed = self._paused is not None and self._paused.resume()
        try:
            if self._iterator is None:
                self._iterator = iter(self._body)
            return next(self._iterator)
        finally:
            if resumed:
                self._paused = self._running.pause()

    def close(self) -> None:
        """End the job, after the application's own `close`."""
        paused, self._paused = self._paused, None
        resumed = paused is not None and paused.resume()
        try:
            _close(self._body)
        finally:
            if resumed:
                self._running.close()


class _SizedBody(_Body):
    """The same for a response that has a length: servers derive Content-Length from it."""

    def __len__(self) -> int:
        return len(self._body)  # type: ignore[arg-type] # chosen for having one


class _CountedBody:
    """A response that counts out of its lane's limit when the server closes it, or forgets it."""

    def __init__(self, body: Iterable[bytes], end: Callable[[], None]) -> None:
        self._body = body
        self._end: Callable[[], None] | None = end

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        """Close the application's response, then count out."""
        try:
            _close(self._body)
        finally:
            self._count_out()

    def __del__(self) -> None:
        self._count_out()

    def _count_out(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()


class _HeldResponse:
    """Holds `start_response` back until it is known that the answer is in time."""

    def __init__(self, start_response: StartResponse) -> None:
        self._start_response = start_response
        self._held: tuple[Any, ...] | None = None
        self.through = False

    def __call__(
        self, status: str, headers: list[tuple[str, str]], exc_info: _ExceptionTriple | None = None
    ) -> Callable[[bytes], object]:
        if self.through:
            return self._start_response(status, headers, exc_info)
        self._held = (status, headers, exc_info)
        return self._write

    def let_through(self) -> Callable[[bytes], object] | None:
        """Start the response for real; later calls go straight through."""
        self.through = True
        held, self._held = self._held, None
        return self._start_response(*held) if held is not None else None

    def _write(self, data: bytes) -> object:
        # The old `write` callable: headers go out with the first piece, so the answer can no longer become a 504.
        if not self.through:
            self._server_write = self.let_through()
        assert self._server_write is not None, "write is given out only by a held start_response"
        return self._server_write(data)


def _in_time(app: Application, environ: Environ, start_response: StartResponse, due_ns: int) -> Iterable[bytes]:
    response = _HeldResponse(start_response)
    try:
        body = app(environ, response)
    except DeadlineExceeded:
        if response.through:
            raise  # The response has begun; it cannot become another.
        return _late(start_response)
    if time.monotonic_ns() > due_ns and not response.through:
        _close(body)
        return _late(start_response)
    try:
        response.let_through()
    except BaseException:
        _close(body)
        raise
    return body


def _close(body: Iterable[bytes]) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()


def _late(start_response: StartResponse) -> Iterable[bytes]:
    start_response("504 Gateway Timeout", [("Content-Type", "text/plain"), ("Content-Length", str(len(_LATE)))])
    return [_LATE]


def _refuse(start_response: StartResponse, retry_after_s: int) -> Iterable[bytes]:
    headers = [
        ("Content-Type", "text/plain"),
        ("Content-Length", str(len(_REFUSED))),
        ("Retry-After", str(retry_after_s)),
    ]
    start_response("503 Service Unavailable", headers)
    return [_REFUSED]
