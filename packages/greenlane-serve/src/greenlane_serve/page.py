"""A page for Prometheus on a Unix socket, answered by threads of its own."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from greenlane.export import prometheus

__all__ = ["Page", "page_of"]


class Page:
    """One text for Prometheus on a Unix socket, in threads of its own, until stopped.

    Args:
        path: of the socket; what is there goes.
        text: gives it; called with the target of each request.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(self, path: Path, text: Callable[[str], str]) -> None:
        path.unlink(missing_ok=True)

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = text(self.path).encode()
                self.send_response(200)
                self.send_header("Content-Type", prometheus.CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *said: object) -> None:
                """Say nothing."""

        self._server = _Server(str(path), Answer)
        threading.Thread(target=self._server.serve_forever, name="greenlane-control", daemon=True).start()

    def stop(self) -> None:
        """Listen no longer. Blocks up to 0.5 s."""
        self._server.shutdown()
        self._server.server_close()


def page_of(socket: Path) -> Path:
    """Where a worker that serves on `socket` by a loop answers Prometheus."""
    return socket.with_name(f"{socket.name}.metrics")


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
