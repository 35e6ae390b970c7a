"""One client connection of the worker, and how the request's bytes that the front has read reach gunicorn's parser.

A connection has one owner at a time: the front (main thread) while it waits for a request's head, for room to be closed
properly, or while nothing is known of it yet; a pool thread from the moment it is submitted until it is parked again.
The one exception is a deadline, see `Claim`.

The socket stays in blocking mode for its whole life: the front passes MSG_DONTWAIT. Switching modes costs a system call
each way, and every system call lets go of the GIL, which beside a CPU-bound thread costs a switch interval.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from _socket import socket as RawSocket  # its methods are below anything that probes patch
from _thread import LockType, allocate_lock
from select import POLLOUT, poll
from typing import Any, Final

from gunicorn.http.body import LengthReader
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import SocketUnreader
from gunicorn.workers.gthread import TConn

from greenlane._native import send_now
from greenlane.errors import Cancelled
from greenlane.hosts.pace import Pace

__all__ = ["AheadUnreader", "Claim", "Conn", "QuickParser", "too_late"]

# Who owns the connection and what for.
WAITING: Final = 0  # the front: for the first byte, or the rest, of a head
BUSY: Final = 1  # a pool thread
LEAVING: Final = 2  # the front: the write side is closed, for the client to close too
CLOSED: Final = 3
DOUBTED: Final = 4  # the front: with a request over the limit, about to be refused

_send = RawSocket.send
# More than this is sent without the GIL: the kernel copies it meanwhile.
_NOW_BYTES: Final = 65536
_DONTWAIT: Final = socket.MSG_DONTWAIT


class Claim:
    """Who answers a request that has a deadline: its thread or the front. Exactly one `take` gives True.

    The front takes it and answers under `answering`; a thread that has lost it passes through `answering` before it
    closes the socket, so that the front never writes to a descriptor that has become another's.
    """

    __slots__ = ("_token", "answered", "answering", "conn", "deadline_ns", "over", "queued")

    def __init__(self, conn: Conn, deadline_ns: int, *, queued: bool = False) -> None:
        # None once the request is over: the claim itself stays with the deadlines until its time.
        self.conn: Conn | None = conn
        self.deadline_ns = deadline_ns
        # No thread has begun with the request. Written by its thread when it does.
        self.queued = queued
        # The request has ended, whoever answered. Written by its thread.
        self.over = False
        # The front has answered it. Written by the front under `answering`.
        self.answered = False
        self.answering = allocate_lock()
        self._token = [None]

    def take(self) -> bool:
        """Claim the answer. Atomic with and without the GIL: `list.pop` either gives the token or raises."""
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def __lt__(self, other: Claim) -> bool:
        return self.deadline_ns < other.deadline_ns


def too_late() -> BrokenPipeError:
    """What the thread meets when it writes to a request that was answered 504: the same as when the client is gone."""
    return BrokenPipeError(errno.EPIPE, "deadline exceeded: the request has been answered 504")


class AheadUnreader(SocketUnreader):  # type: ignore[misc]  # gunicorn has no types
    """Gives the parser what the front has read, then the socket, with a bound on each read of a body."""

    def __init__(self, conn: Conn) -> None:
        super().__init__(conn.sock)
        self.ahead = b""
        self.timed_out = False
        self._conn = conn
        self._pace = Pace(conn.body_timeout_s, conn.body_bytes_per_s)
        self._request = 0

    def chunk(self, size_hint: int | None = None) -> bytes:
        """The next bytes; b"" at the end of the connection."""
        if self.ahead:
            data, self.ahead = self.ahead, b""
            return data
        began_s = time.monotonic()
        try:
            came: bytes = self._tls_chunk(size_hint) if self._conn.tls else super().chunk(size_hint)
        except (BlockingIOError, TimeoutError):  # EAGAIN is how SO_RCVTIMEO shows
            self.timed_out = True
            raise TimeoutError("request body: the client sent nothing for body_timeout_s") from None
        self._keep_pace(len(came), time.monotonic() - began_s)
        return came

    def _keep_pace(self, size_bytes: int, waited_s: float) -> None:
        conn = self._conn
        if self._request != conn.requests:
            self._request, self._pace = conn.requests, Pace(conn.body_timeout_s, conn.body_bytes_per_s)
        self._pace.took(size_bytes, waited_s)
        if self._pace.left_s <= 0:
            self.timed_out = True
            raise TimeoutError("request body: the client sends less than body_bytes_per_s")

    def _tls_chunk(self, size_hint: int | None) -> bytes:
        conn = self._conn
        with conn.io:
            self.sock.settimeout(conn.body_timeout_s)
            try:
                return super().chunk(size_hint)  # type: ignore[no-any-return]
            finally:
                self.sock.settimeout(None)

    def left(self) -> bytes:
        """What was read beyond the last request; empties the buffer."""
        data: bytes = self.take_buffered() + self.ahead
        self.ahead = b""
        return data


class QuickParser(RequestParser):  # type: ignore[misc]
    """gunicorn's parser, without the four system calls that ask a body of known length whether it has been read."""

    def finish_body(self, deadline: float | None = None, max_bytes: int | None = None) -> bool:
        """Discard what is left of the body; False when that could not be done."""
        body = None if self.mesg is None else self.mesg.body
        if body is not None and type(body.reader) is LengthReader and body.reader.length == 0 and not body.failed:
            return True
        return bool(super().finish_body(deadline=deadline, max_bytes=max_bytes))


class Conn(TConn):  # type: ignore[misc]
    """A client connection. Has what gthread's has, for the code of gunicorn that it is handed to.

    Args:
        cfg: gunicorn's configuration.
        sock: the accepted socket, in blocking mode.
        client: its peer, as `accept` gave it.
        server: the listener's address.
        body_timeout_s: most seconds between two pieces of a body.
        body_bytes_per_s: least mean rate of a body after that time; 0 = any.
    """

    # gthread's own, and gunicorn's.
    parser: Any = None
    timeout: float | None = None
    initialized = False
    is_http2 = False
    data_ready = False

    # One of WAITING ... above. Written by the owner as it hands over.
    stage = WAITING
    # time.monotonic() at which the front gives up waiting.
    expires_s = 0.0
    # Bytes of the next head so far, and when its first byte was seen.
    head = b""
    arrival_ns = 0
    # Requests begun on this connection.
    requests = 0
    # Whether the poller knows the descriptor.
    polled = False
    tls = False
    # The connection does not begin with a plain HTTP/1 head: a pool thread opens it.
    opens_in_thread = False
    # An idle HTTP/2 connection whose time is over: a pool thread says GOAWAY.
    farewell = False
    # Thrown away after the last answer.
    thrown_bytes = 0
    # A next request is not expected: the client asked to close and its request has been read to the end.
    clean = False
    # Answer of the current request, once made, and its claim if it has a deadline.
    response: Any = None
    claim: Claim | None = None
    # Behind the front of `greenlane serve`: when the request came to this process, its lane, its deadline (0 = none).
    picked_ns = 0
    lane = ""
    span_ns = 0
    # Its client has left. Written by the front while a thread serves it.
    gone = False
    # Over TLS only, made with it: held while the thread is inside the TLS library, which must not be entered twice.
    io: LockType
    _bounded = False

    def __init__(
        self, cfg: Any, sock: socket.socket, client: Any, server: Any, body_timeout_s: float, body_bytes_per_s: int = 0
    ) -> None:
        # Not TConn's own: it would switch the socket's mode.
        self.cfg = cfg
        self.sock = sock
        self.client = client
        self.server = server
        self.fd = sock.fileno()
        self.body_timeout_s = body_timeout_s
        self.body_bytes_per_s = body_bytes_per_s

    def check(self) -> None:
        """Raise Cancelled if the client has left: what the application's checkpoints ask."""
        if self.gone:
            raise Cancelled()

    def make_parser(self, parser: Any) -> None:
        """Let `parser` read what the front has read first."""
        parser.unreader = AheadUnreader(self)
        self.parser = parser

    def nothing_left(self) -> bool:
        """Whether the request has been read to its end, and nothing behind it."""
        return bool(self.parser.finish_body(deadline=0.0)) and not self.parser.unreader.left()

    def bound_body(self) -> None:
        """From now on a plain socket's blocking read gives up after `body_timeout_s`. Once per connection."""
        if self._bounded or self.tls:
            return
        self._bounded = True
        seconds = int(self.body_timeout_s)
        microseconds = int((self.body_timeout_s - seconds) * 1e6)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", seconds, microseconds))

    def unbound_body(self) -> None:
        """Reads block for as long as it takes: the connection belongs to the application (a WebSocket)."""
        if self._bounded:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, 0))
            self._bounded = False

    def push(self, data: bytes) -> None:
        """Write all of `data`, blocking if the client does not read.

        What fits into the socket's buffer goes without a word to the probes: such a write does not block, so it ends
        no CPU phase.
        """
        if self.tls:
            self.sock.sendall(data)
            return
        try:
            # Not by `conn.fd`: an application that closes the socket itself may have made its number another's.
            small = len(data) <= _NOW_BYTES
            sent = send_now(self.sock.fileno(), data) if small else _send(self.sock, data, _DONTWAIT)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self.sock.sendall(memoryview(data)[sent:])

    def push_now(self, data: bytes) -> bool:
        """Write a short answer without waiting; False: the client does not read, or is gone.

        For the owner, and for who holds `io` over TLS.
        """
        try:
            if not self.tls:
                return send_now(self.sock.fileno(), data) == len(data)
            if not _writable(self.fd):
                return False
            self.sock.sendall(data)
            return True
        except OSError:  # includes ssl.SSLError
            return False


def _writable(fd: int) -> bool:
    """Whether a write of a few hundred bytes would not block."""
    look = poll()
    look.register(fd, POLLOUT)
    return bool(look.poll(0))
