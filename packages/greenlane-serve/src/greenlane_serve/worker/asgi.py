"""uvicorn on one socket of its own, the application under `greenlane.hosts.asgi.Greenlane`.

Nobody but the front reaches the socket.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import signal
import socket
import socketserver
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import FrameType
from typing import Any, Final

from greenlane import settings
from greenlane.export import prometheus
from greenlane_serve.settings import ServeSettings
from greenlane_serve.worker import application
from greenlane_serve.worker.bodies import Bounds
from greenlane_serve.worker.clocks import Lateness, Tally
from greenlane_serve.worker.ledger import Ledger

# --- uvicorn's HTTP protocol behind the front: no trailers in the head, no timer for each request.


#: `headers` of a connection whose request has come: a trailer that is put there is gone.
_NO_HEAD: Final[Any] = deque(maxlen=0)


def protocol() -> Any:
    """What uvicorn's setting `http` gets: its protocol on httptools if that is installed, else its own choice (h11).

    The front half-closes a connection whose client it has ended for reading too slowly: what is still to be written
    is given up.

    With httptools a trailer field is reported like a header field, and becomes one: `X-Forwarded-Proto` after the body
    would be believed, although the front has never let it stand in the head.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "auto"

    class BehindFront(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            # What an upgrade is decided by stays readable; what is put there from now on is not part of the scope.
            self.headers = self.headers.copy() if self.parser.should_upgrade() else _NO_HEAD

        def on_response_complete(self) -> None:
            """Without a timer: who is idle is the front's to end."""
            if self.pipeline:
                super().on_response_complete()
                return
            self.server_state.total_requests += 1
            if not self.transport.is_closing():
                self.flow.resume_reading()

        def eof_received(self) -> None:
            self.transport.abort()

    return BehindFront


# Longer than HAProxy keeps an idle connection: the side that decides when one ends is the one that sends requests.
_KEEPALIVE_S: Final = 3600


def serve(
    name: str, socket_fd: int, slot: Path, index: int, ready: Callable[[], None], ledger: Ledger,
    stop_s: float,
) -> None:  # fmt: skip
    """Serve until told to stop; `ledger` is written some times a second, unless the loop is blocked. Blocks."""
    import uvicorn

    from greenlane_serve.worker.entry import Behind

    found = settings.load(kind=ServeSettings)
    bounds = Bounds(round(found.body_max_mb * 1e6), found.body_timeout_s, found.body_bytes_per_s)
    lateness = Lateness()
    tally = Tally(ledger, lateness)
    app = below(application.load(name), found.root_path)
    entry = Behind(app, bounds, tally, lateness)
    if found.metrics_path:
        MetricsPage(page_of(slot), lambda target: entry.metrics({"worker": str(index)}))

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                entry.clocks.begin()
                _log_tasks_on_signal()
                ready()

        async def on_tick(self, counter: int) -> bool:
            tally.turn()
            return await super().on_tick(counter)

    config = uvicorn.Config(
        entry, interface="asgi3", http=protocol(), timeout_keep_alive=_KEEPALIVE_S,
        proxy_headers=False, log_level=found.log_level, access_log=False,
        timeout_graceful_shutdown=max(1, round(stop_s)),
    )  # fmt: skip
    Server(config).run(sockets=[socket.socket(fileno=socket_fd)])


def below(app: Any, root_path: str) -> Any:
    """The application, mounted below a path ("" = as it is). `scope["path"]` stays whole, as ASGI says."""
    if not root_path:
        return app

    async def called(scope: Any, receive: Any, send: Any) -> None:
        if f"{scope.get('path', '')}/".startswith(f"{root_path}/"):
            scope = {**scope, "root_path": root_path}
        await app(scope, receive, send)

    return called


# Without a configuration of the application's own it goes to stderr as it is.
_log: Final = logging.getLogger("greenlane")
# A loop may have thousands: those that have waited longest are among the first.
_MOST: Final = 50


def _log_tasks_on_signal() -> None:
    """On SIGUSR2, from now on. The loop says it, so a blocked one does not: faulthandler tells why."""
    faulthandler.unregister(signal.SIGUSR2)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, _log_tasks)


def _log_tasks() -> None:
    for task in list(asyncio.all_tasks())[:_MOST]:
        where = "".join(f"  {line}\n" for line in standing(task.get_coro()))
        _log.error("Task %s (outermost call first):\n%s", task.get_name(), where)


def standing(coroutine: Any) -> Iterator[str]:
    """The calls that wait for one another, from a coroutine to the innermost."""
    while coroutine is not None:
        frame: FrameType | None = next(
            (found for name in ("cr_frame", "gi_frame", "ag_frame") if (found := getattr(coroutine, name, None))), None
        )
        if frame is not None:
            code = frame.f_code
            yield f'File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}'
        wrapped = getattr(coroutine if frame is None else frame.f_locals.get("self"), "awaited", None)
        coroutine = wrapped or getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)


class MetricsPage:
    """One text for Prometheus on a Unix socket, in threads of its own, until stopped.

    Args:
        path: of the socket; what is there goes.
        text: gives it; called with the target of each request. "" = 503.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(self, path: Path, text: Callable[[str], str]) -> None:
        path.unlink(missing_ok=True)

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = text(self.path).encode()
                self.send_response(200 if body else 503)
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
