"""Connections that do not begin with a plain HTTP/1 head: TLS, and HTTP/2 without it. Loaded with the first of them.

Opened step by step in pool threads: a step never blocks, and between two steps the connection waits in the main
thread's poller. So a client that trickles its handshake or, behind TLS, its head holds no thread.
"""

from __future__ import annotations

import ssl
import time
from _thread import allocate_lock
from collections.abc import Callable
from typing import Any, Final

from gunicorn import http
from gunicorn import sock as gunicorn_sock
from gunicorn.http.errors import InvalidH2CPreface
from gunicorn.http2 import negotiation

from greenlane.hosts.gunicorn.connection import PARTIAL, Conn, Judge
from greenlane.hosts.gunicorn.dispatch import Dispatch

__all__ = ["begin", "next_request"]

# How far a connection has come.
HEAD: Final = 0  # `conn.head` holds what a parser can begin with
HTTP2: Final = 1  # it speaks HTTP/2; `conn.parser` is its connection
READ: Final = 2  # more bytes are needed
WRITE: Final = 3  # the handshake wants to write and cannot
CLOSED: Final = 4  # the client has gone

_READ_BYTES: Final = 16384


def begin(conn: Conn, dispatch: Dispatch, failed: Callable[[None, Conn, BaseException], None]) -> bool:
    """Take a connection one step further, on a pool thread; True = the head of a request is whole, serve it."""
    try:
        state, head = _step(conn, dispatch.judge)
    except BaseException as error:
        conn.response = None
        failed(None, conn, error)
        dispatch.part(conn)
        return False
    if state != HEAD:
        _wait(conn, dispatch, state, head)
        return False
    conn.head = head
    refusal = dispatch.refusal(conn)
    if refusal is not None:
        conn.push(refusal)
        dispatch.part(conn)
    return refusal is None


def next_request(conn: Conn, dispatch: Dispatch) -> None:
    """Go on after an answer over TLS: what the library has read already makes no descriptor ready."""
    conn.clean = False
    conn.arrival_ns = time.monotonic_ns()
    conn.head = conn.parser.unreader.left()
    try:
        state, head = _step(conn, dispatch.judge)
    except (OSError, ValueError):
        dispatch.part(conn)
        return
    if state == HEAD:
        conn.head = head
        dispatch.dispatch(conn)
    else:
        conn.head = b""  # the rest of a head has its time from now on
        _wait(conn, dispatch, state, head)


def _wait(conn: Conn, dispatch: Dispatch, state: int, head: bytes) -> None:
    """Give a connection that is not ready back to the main thread."""
    if state == CLOSED:
        dispatch.part(conn)
    else:
        dispatch.park(conn, head, writable=state == WRITE)


def _step(conn: Conn, judge: Judge) -> tuple[int, bytes]:
    """Take a connection one step further.

    Returns:
        how far it is, and what has been read of its head (the caller puts it into `conn.head`).

    Raises:
        ssl.SSLError, OSError, gunicorn's parse errors: as the connection's own thread would raise them.
    """
    if conn.cfg.is_ssl:
        return _tls(conn, judge)
    conn.opens_in_thread = False
    if conn.initialized or not negotiation.prior_knowledge_allowed(conn.cfg, conn.client):
        return READ, conn.head
    conn.initialized = True
    matched, head = negotiation.read_preface_blocking(conn.sock)
    if matched:
        _begin_http2(conn)
        conn.parser.receive_data(head)
        return HTTP2, b""
    if negotiation.mismatch_is_error(conn.cfg):
        raise InvalidH2CPreface(head)
    return (HEAD if judge(head, 0, True) != PARTIAL else READ), head


def _tls(conn: Conn, judge: Judge) -> tuple[int, bytes]:
    if not conn.tls:
        _wrap(conn)
    sock: Any = conn.sock
    sock.settimeout(0)
    try:
        if not conn.initialized:
            sock.do_handshake()
            conn.initialized = True
            if gunicorn_sock.is_http2_negotiated(sock):
                sock.settimeout(None)
                _begin_http2(conn)
                return HTTP2, b""
        return _tls_head(conn, judge)
    except ssl.SSLWantReadError:
        return READ, conn.head
    except ssl.SSLWantWriteError:
        return WRITE, conn.head


def _tls_head(conn: Conn, judge: Judge) -> tuple[int, bytes]:
    """Read decrypted bytes until the head is whole or nothing more is there."""
    head = conn.head
    if head and judge(head, 0, not conn.requests) != PARTIAL:
        conn.sock.settimeout(None)
        return HEAD, head
    while True:
        try:
            data = conn.sock.recv(_READ_BYTES)
        except ssl.SSLWantReadError:
            return READ, head
        if not data:
            return CLOSED, b""
        judged, head = len(head), head + data
        if judge(head, judged, not conn.requests) != PARTIAL:
            conn.sock.settimeout(None)
            return HEAD, head


def _wrap(conn: Conn) -> None:
    """Put TLS over the socket. The context is made per connection, as gunicorn does: its hook may choose by it."""
    plain, cfg = conn.sock, conn.cfg
    plain.settimeout(0)
    conn.sock = gunicorn_sock.ssl_context(cfg).wrap_socket(
        plain,
        server_side=True,
        suppress_ragged_eofs=cfg.suppress_ragged_eofs,
        do_handshake_on_connect=False,
    )
    conn.io = allocate_lock()
    conn.tls = True


def _begin_http2(conn: Conn) -> None:
    conn.is_http2 = conn.opens_in_thread = True
    conn.parser = http.get_parser(conn.cfg, conn.sock, conn.client, http2_connection=True)
    conn.parser.initiate_connection()
