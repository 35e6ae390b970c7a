"""Prometheus: one scrape of the front's `metrics_path` tells of the tree and of every worker.

The front sends it to a socket of the tree, past every queue: what is overloaded can still be looked at. Workers that
have a metrics page of their own (WSGI) are asked for it, on the sockets on which the front reaches them.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

from greenlane.export import prometheus
from greenlane.fleet.haproxy.configuration import METRICS
from greenlane.fleet.status import Status

__all__ = ["Scrape"]

# A worker that computes answers when it has turned: within a switch interval, as a rule.
_ANSWER_S: Final = 1.0


class Scrape:
    """Answers on the socket `metrics` in a folder, in threads of its own, until stopped.

    Args:
        folder: of the front.
        status: gives how it stands.
        workers: gives the sockets of workers that have a metrics page.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(self, folder: Path, status: Callable[[], Status], workers: Callable[[], Iterable[Path]]) -> None:
        path = folder / METRICS
        path.unlink(missing_ok=True)

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages = [prometheus.render_serve(status()), *_pages(workers(), self.path)]
                body = prometheus.merged(pages).encode()
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


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def _pages(workers: Iterable[Path], target: str) -> Iterator[str]:
    for path in workers:
        with contextlib.suppress(OSError, http.client.HTTPException):  # it has ended, or is too busy: the next scrape
            connection = _Connection(path)
            try:
                connection.request("GET", target, headers={"Host": "localhost", "Connection": "close"})
                answer = connection.getresponse()
                if answer.status == http.client.OK:
                    yield answer.read().decode(errors="replace")
            finally:
                connection.close()


class _Connection(http.client.HTTPConnection):
    """To a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock: Any = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_ANSWER_S)
        self.sock.connect(str(self._path))
