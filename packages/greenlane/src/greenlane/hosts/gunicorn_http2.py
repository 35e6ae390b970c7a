"""TLS and HTTP/2 connections, on threads of the pool.

gthread gives an HTTP/2 connection a thread until it closes; here it has one only while a stream is open.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from gunicorn.http2.errors import HTTP2Error

from greenlane.hosts import gunicorn_opening as opening
from greenlane.hosts.gunicorn_conn import Conn
from greenlane.hosts.gunicorn_head import Judge
from greenlane.hosts.gunicorn_http1 import Application, Environ, Http1Worker, StartResponse
from greenlane.hosts.observed.wsgi import ARRIVAL

__all__ = ["Http2Worker"]


class Http2Worker(Http1Worker):
    """The part of the worker that opens connections step by step, and serves HTTP/2 streams as jobs."""

    judge: Judge
    # What gthread's HTTP/2 code calls.
    wsgi: Application

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Of the stream that a thread serves: arrival_ns, whether its job is open, its lane.
        self._stream = threading.local()

    @abstractmethod
    def special_of(self, path: str) -> tuple[str, str] | None:
        """Status and body for the health or metrics path; None = for the application. `Worker` has it."""

    def open_connection(self, conn: Conn) -> None:
        """Take a connection that does not begin with a plain HTTP/1 head one step further."""
        if conn.is_http2:
            self._serve_streams(conn)
            return
        try:
            state, head = opening.open_on(conn, self.judge)
        except BaseException as error:
            conn.response = None
            self.failed(None, conn, error)
            self.front.part(conn)
            return
        if state != opening.HEAD:
            self._wait(conn, state, head)
            return
        conn.head = head
        refusal = self.front.refusal(conn)
        if refusal is None:
            self.serve_head(conn)
        else:
            conn.push(refusal)
            self.front.part(conn)

    def serve_head(self, conn: Conn) -> None:
        """Serve one HTTP/1 request whose head is whole, and give the connection back to the front."""
        if not self.request(conn):
            self.front.part(conn)
        elif conn.is_http2:  # upgraded
            conn.opens_in_thread = True
            self.front.park(conn, b"")
        elif conn.tls:
            self._next_over_tls(conn)
        else:
            self.front.next_request(conn, conn.parser.unreader.left())

    def _next_over_tls(self, conn: Conn) -> None:
        """Go on after an answer over TLS: what the library has read already makes no descriptor ready."""
        conn.clean = False
        conn.arrival_ns = time.monotonic_ns()
        conn.head = conn.parser.unreader.left()
        try:
            state, head = opening.open_on(conn, self.judge)
        except (OSError, ValueError):
            self.front.part(conn)
            return
        if state == opening.HEAD:
            conn.head = head
            self.front.dispatch(conn, 1)
        else:
            conn.head = b""  # the rest of a head has its time from now on
            self._wait(conn, state, head)

    def _wait(self, conn: Conn, state: int, head: bytes) -> None:
        """Give a connection that is not ready back to the front."""
        if state == opening.CLOSED:
            self.front.part(conn)
        else:
            self.front.park(conn, head, writable=state == opening.WRITE)

    def _serve_streams(self, conn: Conn) -> None:
        if conn.farewell:
            conn.parser.close()
        elif self.handle_http2(conn):
            conn.requests += 1
            self.front.park(conn, b"")
            return
        self.front.part(conn)

    def handle_http2(self, conn: Conn) -> bool:
        """Serve the streams that have come; whether the connection stays open, idle."""
        h2 = conn.parser
        last_served = 0
        try:
            while not h2.is_closed:
                for req in h2.receive_data():
                    conn.arrival_ns = time.monotonic_ns()
                    self._serve_http2_stream(req, conn, h2)
                    last_served = req.stream.stream_id
                if h2.pending_requests or h2._deferred_events:  # came while a body was read: no read is needed
                    continue
                if not self.alive:
                    h2.close(last_stream_id=last_served)  # GOAWAY: the peer may retry what is later
                elif not h2.streams and not _has_decrypted(conn):
                    return not h2.is_closed
        except (OSError, HTTP2Error) as error:  # the client has gone, or breaks the protocol
            self.log.debug("HTTP/2 connection closed: %s", error)
        except Exception:
            self.log.exception("HTTP/2 connection error")
        return False

    def _serve_http2_stream(self, req: Any, conn: Conn, h2_conn: Any) -> None:
        stream = self._stream
        stream.arrival_ns, stream.opened, stream.lane = conn.arrival_ns, False, ""
        try:
            super()._serve_http2_stream(req, conn, h2_conn)
        finally:
            if stream.opened:
                self.running.close()
            if stream.lane:
                self.running.limits.end(stream.lane)

    def stream_application(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """The application as gthread's HTTP/2 code calls it, with the job opened; `_serve_http2_stream` closes it."""
        special = self.special_of(environ["PATH_INFO"])
        if special is not None:
            status, body = special
            start_response(status, [("content-type", "text/plain; charset=utf-8")])
            return [body.encode()]
        limit = self.running.settings.limit
        if limit and self.tpool.in_progress > limit:
            return self.refuse(environ, start_response)
        environ[ARRIVAL] = self._stream.arrival_ns, "accept"
        self._stream.opened = self.open_job(environ, self._stream.arrival_ns)
        self._stream.lane, application = self.admit(environ)
        return application(environ, start_response)


def _has_decrypted(conn: Conn) -> bool:
    return bool(conn.tls and conn.sock.pending())  # type: ignore[attr-defined]  # an SSLSocket when tls is true
