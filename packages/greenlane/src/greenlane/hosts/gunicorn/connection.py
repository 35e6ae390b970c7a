"""One client connection: its owner, what has been read of it, and whether the head of its request is complete.

A connection has one owner at a time: the main thread while it waits for a request's head or for the client to close; a
pool thread from the moment it is submitted until it is parked again. The one exception is a deadline: `answers.Claim`.

A head is judged as bytes here, not parsed: gunicorn's own parser reads the request and refuses what is wrong. The judge
only decides *when* a thread is given to it, so that a head which trickles in holds none.

The socket stays in blocking mode for its whole life: the front passes MSG_DONTWAIT. Switching modes costs a system call
each way, and every system call releases the GIL, which beside a CPU-bound thread costs a switch interval.
"""

from __future__ import annotations

import socket
import struct
import time
from _socket import socket as RawSocket  # its methods are below anything that probes patch
from _thread import LockType
from collections.abc import Callable, Sequence
from select import POLLOUT, poll
from typing import Any, Final, Protocol

from gunicorn.http.body import LengthReader
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import SocketUnreader
from gunicorn.util import unquote_to_wsgi_str
from gunicorn.workers.gthread import TConn

from greenlane._native import send_now
from greenlane.errors import Cancelled
from greenlane.hosts.pace import Pace
from greenlane.wiring.process import Running

__all__ = [
    "BUSY",
    "CLOSED",
    "OVER_LIMIT",
    "ENDED",
    "INVALID",
    "LEAVING",
    "PARTIAL",
    "WAITING",
    "AheadUnreader",
    "Conn",
    "Judge",
    "QuickParser",
    "Served",
    "environ_of",
    "field",
    "is_bare",
    "judge_for",
    "method_and_target",
    "prefixes",
]

# The connection's owner and its purpose.
WAITING: Final = 0  # the front: for the first byte, or the rest, of a head
BUSY: Final = 1  # a pool thread
LEAVING: Final = 2  # the front: the write side is closed, for the client to close too
CLOSED: Final = 3
OVER_LIMIT: Final = 4  # the front: with a request over the limit, about to be refused

# What is to be done with the bytes of a head so far.
PARTIAL: Final = 0  # wait for more
ENDED: Final = 1  # the head is whole
INVALID: Final = 2  # the parser refuses it already, or it is not ours: let the parser say so

# (bytes so far, how many of them were judged before, first request of the connection) -> PARTIAL, ENDED or INVALID
Judge = Callable[[bytes, int, bool], int]

_CR: Final = 13
_PROXY_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
# gunicorn's own bounds where a limit is 0 or above them (gunicorn.http.message).
_LONGEST_LINE: Final = 8190
_MOST_FIELDS: Final = 32768

_send = RawSocket.send
# More than this is sent without the GIL: the kernel copies it meanwhile.
_NOW_BYTES: Final = 65536
_DONTWAIT: Final = socket.MSG_DONTWAIT


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
    # Of `answers.Claim`; None = no deadline, nobody but its thread answers.
    claim: Any = None
    # The job of the current request: the permits', the recording's (0 = none), the lane that it is counted in.
    opened = False
    recorded = 0
    counted_in = ""
    # Of `deadline.CURRENT`, which is this connection while its request runs behind the front.
    caller: Any = None
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

        What fits into the socket's buffer is not reported to the probes: such a write does not block, so it ends
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

        For the owner, and for the holder of `io` over TLS.
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


def judge_for(cfg: Any) -> Judge:
    """The judge for a gunicorn configuration: its protocol, its PROXY protocol and its limits."""
    if cfg.protocol == "uwsgi":
        return _judge_uwsgi
    line = cfg.limit_request_line
    line = _LONGEST_LINE if line < 0 else min(line, _LONGEST_LINE)
    fields = cfg.limit_request_fields
    fields = fields if 0 < fields <= _MOST_FIELDS else _MOST_FIELDS
    field = cfg.limit_request_field_size or _LONGEST_LINE
    http = _judge_http(line, line + fields * (field + 2) + 4)
    return http if cfg.proxy_protocol == "off" else _behind_proxy(http, cfg.proxy_protocol)


def method_and_target(head: bytes) -> tuple[bytes, bytes]:
    """Method and request-target of a head; empty when there is no such line."""
    parts = head[: head.find(b"\r\n")].split(b" ", 2)
    return (parts[0], parts[1]) if len(parts) == 3 else (b"", b"")


def field(head: bytes, name: bytes) -> str:
    """A header's value as the front of `greenlane serve` writes it; "" = it is not there. `name` in lower case."""
    key = b"\r\n" + name + b": "
    begin = head.find(key, 0, head.find(b"\r\n\r\n"))
    if begin < 0:
        return ""
    begin += len(key)
    return head[begin : head.find(b"\r\n", begin)].decode("latin-1")


def is_bare(head: bytes) -> bool:
    """Whether these bytes are a head and nothing else, and none of its body is to come."""
    lower = head.lower()
    return head.endswith(b"\r\n\r\n") and b"\r\ncontent-length:" not in lower and b"\r\ntransfer-" not in lower


def environ_of(head: bytes, headers: Sequence[str]) -> dict[str, str]:
    """The path and these headers of a head, as a WSGI environ has them; no path when the connection is to change hands.

    For requests that wait for a thread only: the parser reads them again.
    """
    wanted = {header.lower().encode("latin-1"): "HTTP_" + header.upper().replace("-", "_") for header in headers}
    method, target = method_and_target(head)
    path = unquote_to_wsgi_str(target.partition(b"?")[0].decode("latin-1"))
    environ = {"PATH_INFO": "" if method == b"CONNECT" else path}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if not line:
            break
        if name == b"upgrade":
            environ["PATH_INFO"] = ""
        elif name in wanted:
            environ[wanted[name]] = value.strip(b" \t").decode("latin-1")
    return environ


def _judge_http(longest_line: int, longest_head: int) -> Judge:
    def judge(head: bytes, judged: int, _first: bool) -> int:
        if head.find(b"\r\n\r\n", max(judged - 3, 0)) >= 0:
            return ENDED
        news = head[judged - 1 :] if judged and head[judged - 1] == _CR else head[judged:]
        if len(head) > longest_head or news.count(b"\n") != news.count(b"\r\n"):
            return INVALID
        too_long = 0 < longest_line < len(head) - 2 and not 0 <= head.find(b"\r\n", 2) <= longest_line + 2
        return INVALID if too_long else PARTIAL

    return judge


def _behind_proxy(http: Judge, mode: str) -> Judge:
    """A judge that skips the PROXY header which may stand before a connection's first request."""

    def judge(head: bytes, judged: int, first: bool) -> int:
        if not first:
            return http(head, judged, False)
        start = _proxy_header(head, mode)
        return PARTIAL if start < 0 else http(head[start:], 0, False)

    return judge


def _proxy_header(head: bytes, mode: str) -> int:
    """Bytes of the PROXY header before the request; 0 = there is none, -1 = it is not whole."""
    if mode in ("v2", "auto") and head[:12] == _PROXY_V2[: len(head)]:
        size = 16 + int.from_bytes(head[14:16], "big") if len(head) >= 16 else len(head) + 1
        return size if len(head) >= size else -1
    if mode in ("v1", "auto") and head[:6] == b"PROXY "[: len(head)]:
        end = head.find(b"\r\n")
        # The longest legal line has 107 bytes; one that is longer is the parser's to refuse.
        return end + 2 if end >= 0 else -1 if len(head) <= 107 else 0
    return 0


def _judge_uwsgi(head: bytes, _judged: int, _first: bool) -> int:
    if len(head) < 4:
        return PARTIAL
    return ENDED if len(head) >= 4 + int.from_bytes(head[1:3], "little") else PARTIAL


def prefixes(paths: Sequence[str]) -> tuple[bytes, ...]:
    """What a GET or HEAD of one of these paths begins with: a cheap first test."""
    return tuple(method + path.encode("latin-1") for path in paths if path for method in (b"GET ", b"HEAD "))


class Served(Protocol):
    """What the parts of a worker need of it. `Worker` has all of it; some of it is gunicorn's."""

    cfg: Any
    log: Any
    running: Running
    #: The application, without our wrappers.
    application: Callable[..., Any]
    #: Told to stop when False.
    alive: bool
    #: The worker is at its `max_requests` and its successor does not run yet.
    recycling: bool
    #: All requests come from the front of `greenlane serve`, over Unix sockets: see `greenlane_serve.worker`. What
    #: the head of a request says of arrival and lane is believed.
    behind_front: bool
    sockets: Sequence[Any]
    nr: int
    max_requests: int
    max_keepalived: int

    def notify(self) -> None:
        """Tell the arbiter that this worker lives."""

    def is_parent_alive(self) -> bool:
        """Whether the arbiter is still our parent."""

    def special(self, head: bytes) -> bytes | None:
        """The answer to a health or metrics request; None = one for the application."""

    def special_of(self, path: str) -> tuple[str, str] | None:
        """Status and body for the health or metrics path; None = for the application."""

    def capacity(self) -> int:
        """Requests in progress that count as full just now."""

    def over_limit(self) -> bool:
        """Whether more requests are in progress than `limit`."""

    def note(self, what: str) -> None:
        """Count an event by its name."""

    def note_refusal(self) -> None:
        """Count a request that was refused over a limit, and log it at most once a minute."""

    def tell(self, message: str, *, trace: bool = True) -> None:
        """Log the first failure of a kind."""

    def due_ns(self, head: bytes, arrival_ns: int) -> int:
        """The deadline of a request that no thread has looked at; 0 = none."""

    def too_late(self, conn: Conn) -> bool:
        """Whether a request is refused because it would end too late. Behind the front only."""

    def open_job(self, conn: Conn, environ: dict[str, Any]) -> None:
        """Open the request's job on this thread."""

    def close_job(self, conn: Conn, status: int) -> None:
        """Close the request's job, and count it out of its lane's limit."""

    def admit(self, conn: Conn, environ: dict[str, Any]) -> Callable[..., Any]:
        """Count the request in its lane's limit; the application, or the refusal in its place."""

    def refuse(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        """The application of requests over a limit."""

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """gunicorn's answer to a request that failed."""

    def handle_h2c_upgrade(self, conn: Any, req: Any, settings: Any) -> bool:
        """gunicorn's switch of a connection to HTTP/2."""

    def _keepalive_after(self, conn: Any, keepalive: bool) -> bool: ...

    def _serve_http2_stream(self, req: Any, conn: Any, h2_conn: Any) -> None: ...
