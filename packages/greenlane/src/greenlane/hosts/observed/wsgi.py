"""A WSGI application under observation: each call of it is a job, until the server closes its response.

What the server sees is what the application gave: a length where there was one, the server's own file wrapper as it is.
Not an API: `greenlane.hosts.wsgi.Greenlane` is the middleware that people install.

Cost: some 3 us a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from greenlane import deadline
from greenlane._native import Recorder
from greenlane.hosts.observed import front_clock
from greenlane.probes.routes import shape

__all__ = ["ARRIVAL", "Environ", "Observed", "Requests", "observed", "status_of"]

Environ = dict[str, Any]
StartResponse = Callable[..., Callable[[bytes], object]]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

#: Key of the environ under which a host that reads on another thread leaves (arrival ns, clock).
ARRIVAL: Final = "greenlane.arrival"
_FAILED: Final = 500
#: Readers around each other in `wsgi.input`. Arbitrary.
_MOST_WRAPPED: Final = 4


def observed(app: Any, host: str, spawned_ns: Callable[[], int] | None = None) -> Any:
    """Give `app` under observation, or as it is when it is already or cannot be called.

    Args:
        app: a WSGI application.
        host: the server, such as "gunicorn.sync".
        spawned_ns: see `Requests`.
    """
    return app if isinstance(app, Observed) or not callable(app) else Observed(app, Requests(host, spawned_ns))


class Requests:
    """Opens and closes the jobs of a host's requests.

    Args:
        host: such as "gunicorn.sync".
        spawned_ns: gives when the greenlet that calls it was started; None = there are none.
    """

    def __init__(self, host: str, spawned_ns: Callable[[], int] | None = None) -> None:
        self._host = host
        self._spawned_ns = spawned_ns
        self._recorder = Recorder()

    def open(self, environ: Environ, accepted_ns: int = 0) -> int:
        """Open a job, named by method and path until a framework names it.

        0 = off, there is one already, or it is a WebSocket: that lasts as long as its client stays.

        Args:
            environ: the WSGI environ.
            accepted_ns: when the host has read the request, if it reads unseen; 0 = it does not. A front's header says
                it better.
        """
        recorder = self._recorder
        if not recorder.recording() or str(environ.get("HTTP_UPGRADE", "")).lower() == "websocket":
            return 0
        arrival_ns, clock = _arrival(recorder, environ, accepted_ns)
        spawn_ns = 0 if self._spawned_ns is None else self._spawned_ns()
        due_ns = deadline.due_ns(environ, front_clock.DEADLINES, arrival_ns) if arrival_ns else 0
        job = recorder.open(
            arrival_ns=arrival_ns,
            # A connection's first request only: for later ones its greenlet was there already.
            spawn_ns=spawn_ns if spawn_ns >= arrival_ns else 0,
            deadline_ns=due_ns,
            clock=clock,
            host=self._host,
        )
        if job:
            recorder.name(shape(str(environ.get("REQUEST_METHOD", "")), str(environ.get("PATH_INFO", ""))))
        return job

    def close(self, job: int, status: int) -> None:
        """Close a job; 0: nothing."""
        self._recorder.close(job, status)


class Observed:
    """The application with jobs around its calls. Attributes are the application's."""

    def __init__(self, app: Application, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app, name)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Run one request as a job."""
        job = self._requests.open(environ)
        if not job:
            return self._app(environ, start_response)
        response = _Response(self._requests, job, start_response)
        try:
            body = self._app(environ, response.start)
        except BaseException:
            response.close(_FAILED)
            raise
        wrapper = environ.get("wsgi.file_wrapper")
        if isinstance(wrapper, type) and isinstance(body, wrapper):
            _close_with(body, response)
            return body
        return _SizedBody(body, response) if hasattr(body, "__len__") else _Body(body, response)


class _Response:
    """One response: its status, and the job that ends with it."""

    __slots__ = ("_job", "_requests", "_start_response", "_status")

    def __init__(self, requests: Requests, job: int, start_response: StartResponse) -> None:
        self._requests = requests
        self._job = job
        self._start_response = start_response
        self._status = 0

    def start(self, status: str, headers: Any, *exc_info: Any) -> Callable[[bytes], object]:
        self._status = status_of(status)
        return self._start_response(status, headers, *exc_info)

    def close(self, status: int = 0) -> None:
        """End the job; the first call counts."""
        job, self._job = self._job, 0
        if job:
            self._requests.close(job, status or self._status)


class _Body:
    """The chunks of a response; the job ends when the server closes it, or forgets it."""

    __slots__ = ("_body", "_response")

    def __init__(self, body: Iterable[bytes], response: _Response) -> None:
        self._body = body
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        """Close the application's response, then the job."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._response.close()

    def __del__(self) -> None:
        self._response.close()


class _SizedBody(_Body):
    """The same for a response that has a length: servers derive Content-Length from it."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._body)  # type: ignore[arg-type] # chosen for having one


def status_of(text: object) -> int:
    """Give the number of a status line's text ("404 Not Found"); 0 = it has none."""
    word = str(text)[:3]
    return int(word) if word.isdecimal() and len(word) == 3 else 0


def _arrival(recorder: Recorder, environ: Environ, accepted_ns: int) -> tuple[int, str]:
    told_ns = front_clock.environ_arrival_ns(environ)
    if told_ns:
        return told_ns, "header"
    given = environ.pop(ARRIVAL, None)
    if given is not None and given[0]:
        return int(given[0]), str(given[1])
    return (accepted_ns, "accept") if accepted_ns else recorder.arrival(_descriptor(environ))


def _descriptor(environ: Environ) -> int:
    """Give the descriptor of the request's connection; -1 = its server does not say which one that is."""
    try:
        connection: Any = environ.get("gunicorn.socket")
        if connection is None:
            connection = environ["wsgi.input"]
            for _ in range(_MOST_WRAPPED):  # cheroot's and gevent's readers stand around the connection's
                connection = getattr(connection, "rfile", connection)
        return int(connection.fileno())
    except Exception:  # a server's own objects: what they have, and raise, is not known
        return -1


def _close_with(body: Any, response: _Response) -> None:
    """Let the server's own file wrapper, which it must get as it is, close the job too."""
    close = getattr(body, "close", None)

    def both() -> None:
        try:
            if close is not None:
                close()
        finally:
            response.close()

    try:
        body.close = both
    except AttributeError:
        response.close()
