"""uvicorn on one socket of its own, the application under `greenlane.hosts.asgi.Greenlane`.

The client's address comes from the front's headers, as uvicorn reads them: nobody but the front reaches the socket.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

from greenlane import settings
from greenlane.errors import PlatformError
from greenlane.export import prometheus
from greenlane_serve.settings import ServeSettings
from greenlane_serve.worker import application
from greenlane_serve.worker.bodies import Asgi, Bounds
from greenlane_serve.worker.clocks import Lateness, Tally
from greenlane_serve.worker.ledger import Ledger
from greenlane_serve.worker.loop_clocks import LoopClocks

__all__ = ["MetricsPage", "page_of", "serve"]

_KEEPALIVE_S: Final = 3600


def serve(name: str, socket_fd: int, index: int, ready: Callable[[], None], ledger: Ledger, stop_s: float) -> None:
    """Serve until told to stop; `ledger` is written some times a second, unless the loop is blocked. Blocks."""
    try:
        import uvicorn
    except ImportError:
        raise PlatformError("serve an ASGI application", name="uvicorn", value=None, rule="an installed package",
                            hint='pip install "greenlane[serve]"') from None  # fmt: skip
    from greenlane.hosts.asgi import Greenlane

    loaded: Any = application.load(name)
    served = loaded if isinstance(loaded, Greenlane) else Greenlane(loaded, host="uvicorn", behind_front=True)
    found = settings.load(kind=ServeSettings)
    public = socket.socket(fileno=socket_fd)
    if found.metrics_path:
        MetricsPage(page_of(Path(public.getsockname())), lambda target: served.metrics({"worker": str(index)}))
    bounds = Bounds(round(found.body_max_mb * 1e6), found.body_timeout_s, found.body_bytes_per_s)

    lateness = Lateness()
    tally = Tally(ledger, lateness)
    clocks = LoopClocks(Asgi(served, bounds), tally, lateness)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                clocks.begin()
                ready()

        async def on_tick(self, counter: int) -> bool:
            tally.turn()
            return await super().on_tick(counter)

    Server(
        uvicorn.Config(
            clocks, http=_protocol(), timeout_keep_alive=_KEEPALIVE_S, proxy_headers=True,
            forwarded_allow_ips="*", log_level="warning", access_log=False,
            timeout_graceful_shutdown=max(1, round(stop_s)),
        )
    ).run(sockets=[public])  # fmt: skip


def _protocol() -> Any:
    """What uvicorn's setting `http` gets: its _protocol on httptools if that is installed, else its own choice (h11).

    With httptools a trailer field is reported like a header field, and becomes one: `X-Forwarded-Proto` after the body
    would be believed, although the front has never let it stand in the head.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "auto"

    class WithoutTrailers(HttpToolsProtocol):
        def on_header(self, name: bytes, value: bytes) -> None:
            scope: Any = self.scope
            if "method" not in scope:  # set when the head is complete
                super().on_header(name, value)

    return WithoutTrailers


class MetricsPage:
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
