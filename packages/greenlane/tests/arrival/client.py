"""A client that knows what it does with its connections, and when: raw sockets, stamps of CLOCK_MONOTONIC.

An answer is there when the kernel has got it, which it stamps: a busy machine lets the client read it later.

`KINDS` has one function for each kind of connection. Each gives what it asked, with the client's moments and those that
the application has answered with.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["KINDS", "Exchange", "Client"]

#: How long a request is held, ms; how long a connection rests, s.
HOLD_MS: Final = 20
IDLE_S: Final = 0.3
#: Between two pieces of a request.
GAP_S: Final = 0.06
_BODY: Final = b"x" * 100_000
#: `SO_TIMESTAMPNS` on Linux; Python names it from 3.14 on.
_TIMESTAMPNS: Final = 35


@dataclass(frozen=True)
class Exchange:
    """One request and its answer. Moments are monotonic, ns."""

    kind: str
    #: Before the first byte was sent, and before the last byte of the head was.
    began_ns: int
    sent_ns: int
    #: After it was sent: a busy machine may have kept the client in between.
    sent_by_ns: int
    #: When the answer's first and last byte were there.
    first_ns: int
    last_ns: int
    #: By the application.
    pid: int
    job: int
    handler_ns: int
    handled_ns: int


class Client:
    """Asks one server, on connections of one kind."""

    def __init__(self, port: int, kind: str, *, tls: bool = False) -> None:
        self.port = port
        self.kind = kind
        self.tls = tls
        self.exchanges: list[Exchange] = []

    def connect(self) -> Wire:
        return Wire(self)


class Wire:
    """One connection. Opened again where the server has closed it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        #: Of requests without an answer: before their first byte, before and after the last byte of their head.
        self._sent: list[tuple[int, int, int]] = []
        self._open()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def get(self, hold_ms: int = HOLD_MS) -> None:
        """Ask, and take the answer."""
        if self._is_closed():
            self._open()
        self.send(request(hold_ms))
        self.receive()

    def send(self, *requests: bytes, gap_s: float = 0.0) -> None:
        """Send requests at once; with `gap_s` a single one in two pieces, so far apart."""
        began_ns = time.monotonic_ns()
        whole = b"".join(requests)
        if gap_s:
            middle = whole.index(b"\r\n") + 9
            self._send(whole[:middle])
            time.sleep(gap_s)
            whole = whole[middle:]
        sent_ns = time.monotonic_ns()
        self._send(whole)
        self._sent += [(began_ns, sent_ns, time.monotonic_ns())] * len(requests)

    def send_more(self, rest: bytes) -> None:
        """Send what belongs to the last request's body."""
        self._send(rest)

    def receive(self) -> None:
        """Take the next answer."""
        moments = self._sent.pop(0)
        first_ns = 0
        while b"\r\n\r\n" not in self._buffer:
            self._read()
            first_ns = first_ns or self._stamp_ns
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        while len(self._buffer) < length:
            self._read()
        last_ns = self._stamp_ns
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        self._closes = fields.get(b"connection") == b"close" or head.startswith(b"HTTP/1.0")
        answer = json.loads(body)
        self._client.exchanges.append(
            Exchange(
                self._client.kind,
                *moments,
                first_ns or last_ns,
                last_ns,
                *(answer[name] for name in ("pid", "job", "began_ns", "ended_ns")),
            )
        )

    @property
    def is_kept(self) -> bool:
        """Whether the server takes another request on it."""
        return not self._is_closed()

    def _open(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._client.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        self._buffer, self._stamp_ns = b"", 0
        self._closes = False
        self._tls: ssl.SSLObject | None = None
        if self._client.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = context.wrap_bio(self._in, self._out)
            while not self._shakes_hands(self._tls):
                self._in.write(self._receive())

    def _shakes_hands(self, tls: ssl.SSLObject) -> bool:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._socket.sendall(self._out.read())
        return True

    def _send(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.write(data)
            data = self._out.read()
        self._socket.sendall(data)

    def _read(self) -> None:
        data = self._receive()
        if self._tls is None:
            self._buffer += data
            return
        self._in.write(data)
        with contextlib.suppress(ssl.SSLWantReadError):
            while more := self._tls.read():
                self._buffer += more

    def _receive(self) -> bytes:
        data, ancillary, _, _ = self._socket.recvmsg(65_536, 64)
        if not data:
            raise ConnectionError(f"{self._client.kind}: the server closed the connection within an answer")
        for level, kind, stamp in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMPNS):
                seconds, ns = struct.unpack("=qq", stamp)
                self._stamp_ns = seconds * 10**9 + ns - _unix_less_monotonic_ns()
        return data

    def _is_closed(self) -> bool:
        # Nothing is awaited here, so what can be read is the end, or TLS' own.
        while not self._closes and select.select([self._socket], [], [], 0)[0]:
            try:
                self._read()
            except (ConnectionError, ssl.SSLError):
                self._closes = True
        if self._closes:
            self._socket.close()
        return self._closes


def _unix_less_monotonic_ns() -> int:
    """Of several looks at both clocks, by the one that took least."""
    looks = []
    for _ in range(5):
        before_ns, unix_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        looks.append((after_ns - before_ns, unix_ns - (before_ns + after_ns) // 2))
    return min(looks)[1]


def request(hold_ms: int = HOLD_MS, body: int = 0) -> bytes:
    """The head of a request that is held so long."""
    method, more = ("POST", f"Content-Length: {body}\r\n") if body else ("GET", "")
    return f"{method} /hold/{hold_ms} HTTP/1.1\r\nHost: here\r\n{more}\r\n".encode()


def new(client: Client) -> None:
    """Each request on a connection of its own."""
    for _ in range(4):
        with client.connect() as wire:
            wire.get()


def keepalive(client: Client) -> None:
    """Request after request on one connection."""
    with client.connect() as wire:
        for _ in range(6):
            wire.get()


def idle(client: Client) -> None:
    """A connection that rests before its first request and between others."""
    with client.connect() as wire:
        for _ in range(3):
            time.sleep(IDLE_S)
            wire.get()


def beside(client: Client) -> None:
    """Two kept connections in turns: each rests while the other one is asked."""
    with client.connect() as one, client.connect() as other:
        for wire in (one, other) * 3:
            wire.get()
            time.sleep(GAP_S)


def pipelined(client: Client) -> None:
    """Three requests in one piece, on a connection that has rested."""
    with client.connect() as wire:
        wire.get()
        if not wire.is_kept:
            return
        time.sleep(IDLE_S)
        wire.send(*[request()] * 3)
        for _ in range(3):
            wire.receive()
        time.sleep(IDLE_S)
        wire.get()


def behind(client: Client) -> None:
    """A request that is sent while the one before it on its connection is held."""
    with client.connect() as wire:
        wire.get()
        if not wire.is_kept:
            return
        for _ in range(2):
            wire.send(request(100))
            time.sleep(GAP_S)
            wire.send(request())
            wire.receive()
            wire.receive()
            time.sleep(IDLE_S)


def split(client: Client) -> None:
    """A head that comes in two pieces."""
    with client.connect() as wire:
        for _ in range(2):
            wire.send(request(), gap_s=GAP_S)
            wire.receive()
            if not wire.is_kept:
                return
            time.sleep(IDLE_S)


def upload(client: Client) -> None:
    """A body of 100 kB behind its head; later another request on the same connection, if the server keeps it."""
    for _ in range(2):
        with client.connect() as wire:
            wire.send(request(100, body=len(_BODY)))
            time.sleep(GAP_S)
            wire.send_more(_BODY)
            wire.receive()
            if not wire.is_kept:
                return
            time.sleep(IDLE_S)
            wire.get()


def crowd(client: Client) -> None:
    """Eight connections at once, three requests on each: more than the server has threads."""
    clients = [Client(client.port, client.kind, tls=client.tls) for _ in range(8)]
    threads = [threading.Thread(target=_three, args=(each,)) for each in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in clients:
        client.exchanges += each.exchanges


def _three(client: Client) -> None:
    with client.connect() as wire:
        for _ in range(3):
            wire.get()


#: In this order: what was read for one kind must not be taken for the next one's.
KINDS: Final[Mapping[str, Callable[[Client], None]]] = {
    each.__name__: each for each in (new, keepalive, idle, beside, pipelined, behind, split, upload, crowd)
}
