"""A loopback server whose every answer a test writes itself."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Answer = Callable[[socket.socket, int], None]


def answered(connection: socket.socket, number: int) -> None:
    connection.sendall(OK)


class Server:
    """Accepts connections and lets `answer(connection, number of the request)` speak. On a Unix socket with `path`."""

    def __init__(self, answer: Answer, path: Path | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._answer = answer
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen(512)
            self.address = f"unix:{path}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while head := connection.recv(4096):
                self.requests.append(head)
                self._answer(connection, len(self.requests))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
