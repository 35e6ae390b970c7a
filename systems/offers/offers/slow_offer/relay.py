"""An observer on the wire: passes bytes between a caller and an upstream, and writes down when each request went past.

    with Relay(upstream_port) as relay:      # callers connect to relay.port
        ...
    relay.passed                             # [Passed(call_id, asked_ns, replied_ns, own_ms), …] by reply

What a proxy's access log would say (Envoy's, a sidecar's): from the request's first byte until the reply's last one,
on the monotonic clock, without anything of the caller's process in it. A thread a connection, in the process that made
it, which must have nothing else to do meanwhile.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from typing import Final, NamedTuple, Self

__all__ = ["Passed", "Relay"]

_CALL_ID: Final = re.compile(rb"^GET [^ ?]*\?(?:[^ ]*&)?id=([^& ]*)")
_CLOCK: Final = re.compile(rb"\r\nx-upstream-ms: *([0-9.]+)\r\n", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_MOST: Final = 65_536


class Passed(NamedTuple):
    """One call as it went past; ns of the monotonic clock."""

    call_id: str
    asked_ns: int
    replied_ns: int
    #: By the upstream's own clock, as its reply says; 0 = it does not. To the microsecond: it tells calls apart.
    own_ms: float

    @property
    def wire_ns(self) -> int:
        """How long the upstream took, for an observer between it and its caller."""
        return self.replied_ns - self.asked_ns


class Relay:
    """Listens on 127.0.0.1 and passes to `target_port`; knows HTTP/1.1 without pipelining, with content-length."""

    def __init__(self, target_port: int) -> None:
        self.passed: list[Passed] = []
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._open: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        """Where callers connect."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *problem: object) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                self._open.append(caller)
                threading.Thread(target=self._pass, args=(caller,), daemon=True).start()

    def _pass(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError), caller, socket.create_connection(self._target) as target:
            self._open.append(target)
            for one in (caller, target):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while request := caller.recv(_MOST):
                asked_ns = time.monotonic_ns()
                target.sendall(request)
                reply = self._reply(caller, target)
                if not reply:
                    return
                replied_ns = time.monotonic_ns()
                named, told = _CALL_ID.match(request), _CLOCK.search(reply)
                call_id = named[1].decode() if named else ""
                self.passed.append(Passed(call_id, asked_ns, replied_ns, float(told[1]) if told else 0.0))

    def _reply(self, caller: socket.socket, target: socket.socket) -> bytes:
        """Pass one reply, and give it; empty: the upstream went away."""
        got = b""
        while not _whole(got):
            more = target.recv(_MOST)
            if not more:
                return b""
            got += more
            caller.sendall(more)
        return got


def _whole(got: bytes) -> bool:
    head, ended, body = got.partition(b"\r\n\r\n")
    if not ended:
        return False
    length = _LENGTH.search(head + b"\r\n")
    return len(body) >= (int(length[1]) if length else 0)
