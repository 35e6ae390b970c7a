"""A wire to a broker that can be cut and mended."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

from tests.child import free_port

__all__ = ["Relay"]


class Relay:
    """Listens on a port of its own and carries bytes to another one. Use it with `with`."""

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self._to = port
        self._open: list[socket.socket] = []
        self._guard = threading.Lock()
        self._cut = False
        # Connections that came while it was cut.
        self.refused = 0
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def cut(self) -> None:
        """End all connections, and each new one immediately."""
        with self._guard:
            self._cut = True
            ends, self._open = self._open, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Carry new connections again."""
        self._cut = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._cut:
                self.refused += 1
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            with self._guard:
                self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_carry, args=(one, other), daemon=True).start()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := one.recv(65_536):
            other.sendall(piece)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_RDWR)
    one.close()
