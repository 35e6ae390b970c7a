"""HTTP/2 connections, on threads of the pool. Loaded with the first of them.

gthread gives an HTTP/2 connection a thread until it closes; here it has one only while a stream is open. One thread
serves the streams of a connection one by one, each as a job.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from gunicorn.http2.errors import HTTP2Error, HTTP2ErrorCode

from greenlane.hosts.gunicorn.answers import falls_short
from greenlane.hosts.gunicorn.connection import Conn, Served
from greenlane.hosts.gunicorn.dispatch import Dispatch

__all__ = ["call_application", "serve", "serve_stream", "serve_streams"]

#: `conn` of the stream that a thread serves.
_stream: Final = threading.local()


def serve(conn: Conn, dispatch: Dispatch, worker: Served) -> None:
    """Serve the streams that have come, then give the connection back."""
    if conn.farewell:
        conn.parser.close()
    elif serve_streams(conn, worker):
        conn.requests += 1
        dispatch.park(conn, b"")
        return
    dispatch.part(conn)


def serve_streams(conn: Conn, worker: Served) -> bool:
    """Serve the streams that have come; whether the connection stays open, idle."""
    h2 = conn.parser
    last_served = 0
    try:
        while not h2.is_closed:
            for req in h2.receive_data():
                conn.arrival_ns = time.monotonic_ns()
                worker._serve_http2_stream(req, conn, h2)
                last_served = req.stream.stream_id
            if h2.pending_requests or h2._deferred_events:  # came while a body was read: no read is needed
                continue
            if not worker.alive:
                h2.close(last_stream_id=last_served)  # GOAWAY: the peer may retry what is later
            elif not h2.streams and not _has_decrypted(conn):
                return not h2.is_closed
    except (OSError, HTTP2Error) as error:  # the client has gone, or breaks the protocol
        worker.log.debug("HTTP/2 connection closed: %s", error)
    except Exception:
        worker.log.exception("HTTP/2 connection error")
    return False


def serve_stream(conn: Conn, worker: Served, gthread_s: Callable[[], None]) -> None:
    """Serve one stream: gunicorn's code, which calls `call_application`. The job that this opens ends here."""
    _stream.conn = conn
    conn.response = None
    try:
        gthread_s()
    finally:
        resp, conn.response = conn.response, None
        worker.close_job(conn, resp.status_code if resp is not None and resp.headers_sent else 500)


def call_application(worker: Served, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The application as gunicorn's HTTP/2 code calls it, with the job opened; `serve_stream` closes it."""
    special = worker.special_of(environ["PATH_INFO"])
    if special is not None:
        status, body = special
        start_response(status, [("content-type", "text/plain; charset=utf-8")])
        return [body.encode()]
    if worker.over_limit():
        return worker.refuse(environ, start_response)
    conn = _stream.conn
    conn.response = resp = start_response.__self__  # type: ignore[attr-defined]  # gunicorn's response
    resp.close = functools.partial(_close, resp, worker)
    worker.open_job(conn, environ)
    answered: Iterable[bytes] = worker.admit(conn, environ)(environ, start_response)
    return answered


def _close(resp: Any, worker: Served) -> None:
    """End a stream's answer; one that is shorter than its Content-Length is reset, as RFC 9113 (8.1.1) asks."""
    if falls_short(resp):
        worker.tell("an answer was shorter than its Content-Length: its stream was reset", trace=False)
        resp.send_headers()
        resp.h2_conn.reset_stream(resp.stream_id, HTTP2ErrorCode.INTERNAL_ERROR)
    else:
        type(resp).close(resp)


def _has_decrypted(conn: Conn) -> bool:
    return bool(conn.tls and conn.sock.pending())  # type: ignore[attr-defined]  # an SSLSocket when tls is true
