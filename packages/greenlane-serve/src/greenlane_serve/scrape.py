"""Prometheus: one scrape of the front's `metrics_path` tells of the tree and of every worker.

The front sends it to a socket of the tree, past every queue: what is overloaded can still be looked at. Each worker is
asked for its own page: one under WSGI on the socket on which the front reaches it, where its main thread answers; one
under ASGI on a socket beside that, where a thread answers, since its loop may be blocked.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from greenlane.export import prometheus
from greenlane_serve.haproxy.configuration import METRICS
from greenlane_serve.page import Page
from greenlane_serve.status import Status

__all__ = ["Scrape"]

# A worker that computes answers when it has turned: within a switch interval, as a rule.
_ANSWER_S: Final = 1.0
# Workers that are asked at the same time.
_AT_ONCE: Final = 16


class Scrape(Page):
    """The page of the whole service, on the socket `metrics` in a folder.

    Args:
        folder: of the front.
        status: gives how it stands.
        workers: gives the sockets of workers that have a metrics page.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(self, folder: Path, status: Callable[[], Status], workers: Callable[[], Iterable[Path]]) -> None:
        super().__init__(
            folder / METRICS,
            lambda target: prometheus.merged([prometheus.render_serve(status()), *_pages(list(workers()), target)]),
        )


def _pages(workers: list[Path], target: str) -> Iterator[str]:
    """Of all at once: one that is too busy costs the scrape `_ANSWER_S`, however many are."""
    if not workers:
        return
    with ThreadPoolExecutor(min(len(workers), _AT_ONCE)) as pool:
        yield from filter(None, pool.map(lambda path: _page(path, target), workers))


def _page(path: Path, target: str) -> str:
    with contextlib.suppress(OSError, http.client.HTTPException):  # it has ended, or is too busy: the next scrape
        connection = _Connection(path)
        try:
            connection.request("GET", target, headers={"Host": "localhost", "Connection": "close"})
            answer = connection.getresponse()
            if answer.status == http.client.OK:
                return answer.read().decode(errors="replace")
        finally:
            connection.close()
    return ""


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
