"""uvicorn on one socket of its own, the application under `greenlane.hosts.asgi.Greenlane`.

The client's address comes from the front's headers, as uvicorn reads them: nobody but the front reaches the socket.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from greenlane import settings
from greenlane.errors import PlatformError
from greenlane_serve.page import Page, page_of
from greenlane_serve.workers import application
from greenlane_serve.workers.bodies import Asgi, Bounds
from greenlane_serve.workers.uvicorn_http import protocol

__all__ = ["serve"]

_KEEPALIVE_S: Final = 3600


def serve(
    name: str, socket_fd: int, index: int, ready: Callable[[], None], turn: Callable[[], None], stop_s: float
) -> None:
    """Serve until told to stop; `turn` is called some times a second, unless the loop is blocked. Blocks."""
    try:
        import uvicorn
    except ImportError:
        raise PlatformError("serve an ASGI application", name="uvicorn", value=None, rule="an installed package",
                            hint='pip install "greenlane[serve]"') from None  # fmt: skip
    from greenlane.hosts.asgi import Greenlane

    loaded: Any = application.load(name)
    served = loaded if isinstance(loaded, Greenlane) else Greenlane(loaded, host="uvicorn", behind_front=True)
    found = settings.load()
    public = socket.socket(fileno=socket_fd)
    if found.metrics_path:
        Page(page_of(Path(public.getsockname())), lambda target: served.metrics({"worker": str(index)}))
    bounds = Bounds(round(found.body_max_mb * 1e6), found.body_timeout_s, found.body_bytes_per_s)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        async def on_tick(self, counter: int) -> bool:
            turn()
            return await super().on_tick(counter)

    Server(
        uvicorn.Config(
            Asgi(served, bounds), http=protocol(), timeout_keep_alive=_KEEPALIVE_S, proxy_headers=True,
            forwarded_allow_ips="*", log_level="warning", access_log=False,
            timeout_graceful_shutdown=max(1, round(stop_s)),
        )
    ).run(sockets=[public])  # fmt: skip
