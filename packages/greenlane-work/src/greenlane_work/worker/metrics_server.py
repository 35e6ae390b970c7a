"""The worker's metrics over HTTP, for Prometheus: one thread of the operating system, one answer a connection.

`_socket` and `greenlane.threads.unpatched`, as for the control socket: a scrape is answered also when a green loop does
not turn.
"""

from __future__ import annotations

import _socket
import contextlib
import time
from collections.abc import Callable
from select import POLLIN
from typing import Final

from greenlane.errors import HostError
from greenlane.export.prometheus import CONTENT_TYPE
from greenlane.threads.fork_warning import mark_thread
from greenlane.threads.unpatched import poll, start_new_thread

__all__ = ["MetricsServer"]

#: How long a client may take, and how much it may say.
_PATIENCE_S: Final = 2.0
_HEAD_BYTES: Final = 8192
#: Where a port alone is meant.
_HERE: Final = "127.0.0.1"


class MetricsServer:
    """Listens at `address`, "host:port" or a port of this machine alone, and answers whatever is asked with the text.

    Raises:
        HostError: the address cannot be used.
    """

    def __init__(self, address: str, text: Callable[[], str]) -> None:
        self._text = text
        host, _, port = address.rpartition(":")
        try:
            info = _socket.getaddrinfo(host.strip("[]") or _HERE, int(port), _socket.AF_UNSPEC, _socket.SOCK_STREAM)[0]
            self._listener = _socket.socket(info[0], info[1])
            self._listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            self._listener.bind(info[4])
            self._listener.listen(16)
        except (OSError, ValueError) as error:
            raise HostError(
                "listen for scrapes",
                name="task_metrics",
                value=address,
                rule=f"host:port where this process can listen ({error})",
                hint="give each worker of a machine a port of its own",
            ) from None
        self._listener.setblocking(False)
        start_new_thread(self._serve, ())

    def _serve(self) -> None:
        mark_thread()
        waiting = poll()
        waiting.register(self._listener, POLLIN)
        while True:
            waiting.poll()
            with contextlib.suppress(OSError):
                number, _ = self._listener._accept()  # type: ignore[attr-defined] # what `socket.socket.accept` calls
                connection = _socket.socket(fileno=number)
                try:
                    self._answer(connection)
                finally:
                    connection.close()

    def _answer(self, connection: _socket.socket) -> None:
        until = time.monotonic() + _PATIENCE_S
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES:
            connection.settimeout(max(0.001, until - time.monotonic()))
            piece = connection.recv(_HEAD_BYTES)
            if not piece:
                return
            head += piece
        body = self._text().encode()
        lines = f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close"
        connection.settimeout(_PATIENCE_S)
        connection.sendall(lines.encode() + b"\r\n\r\n" + body)
