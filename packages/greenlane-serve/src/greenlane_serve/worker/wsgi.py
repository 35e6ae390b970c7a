"""`greenlane.hosts.gunicorn.Worker` on one socket of its own, without an arbiter: the tree is its parent.

The peer of every connection is the front, so the client's address is taken from `X-Forwarded-For`, which the front has
set and no other process can reach the socket to forge.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from greenlane import settings
from greenlane_serve.settings import ServeSettings
from greenlane_serve.worker import application, bodies
from greenlane_serve.worker.bodies import Bounds
from greenlane_serve.worker.clocks import Lateness, Tally, ThreadClocks
from greenlane_serve.worker.ledger import Ledger

# Longer than HAProxy keeps an idle connection: the side that decides when one ends is the one that sends requests.
_KEEPALIVE_S: Final = 3600


def serve(
    name: str, socket_fd: int, index: int, ready: Callable[[], None], ledger: Ledger
) -> None:  # fmt: skip
    """Serve until told to stop; `ledger` is written twice a second, while the main thread turns. Blocks."""
    from gunicorn import sock as gunicorn_sock
    from gunicorn.app.base import BaseApplication

    from greenlane.hosts.gunicorn import Worker

    lateness = Lateness()
    tally = Tally(ledger, lateness)
    clocks: list[ThreadClocks] = []

    class Beating(Worker):
        behind_front = True

        def notify(self) -> None:
            super().notify()
            tally.turn()

        def load_wsgi(self) -> None:
            super().load_wsgi()
            clocks.append(ThreadClocks(tally, lateness))  # once the probes are there

    class Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
        def load_config(self) -> None:
            for key, value in _config(ready, clocks, settings.load(kind=ServeSettings).log_level).items():
                self.cfg.set(key, value)

        def load(self) -> Any:
            found = settings.load(kind=ServeSettings)
            bounds = Bounds(round(found.body_max_mb * 1e6))
            return with_client(bodies.wsgi(application.load(name), bounds), found.root_path)

    served = Application()
    cfg = served.cfg
    log = cfg.logger_class(cfg)
    Worker.check_config(cfg, log)
    sockets = gunicorn_sock.create_sockets(cfg, log, [socket_fd])
    worker = Beating(index, os.getppid(), sockets, served, cfg.timeout / 2, cfg, log)
    worker.pid = os.getpid()
    worker.init_process()


def with_client(wsgi: Any, root_path: str = "") -> Any:
    """The application with the client's address where it is looked for, and mounted below `root_path`."""
    below = f"{root_path}/"

    def called(environ: dict[str, Any], start_response: Any) -> Any:
        environ["REMOTE_ADDR"] = environ.get("HTTP_X_FORWARDED_FOR", "")
        path = environ["PATH_INFO"]
        if root_path and f"{path}/".startswith(below):
            environ["SCRIPT_NAME"], environ["PATH_INFO"] = root_path, path[len(root_path) :]
        return wsgi(environ, start_response)

    return called


def _config(ready: Callable[[], None], clocks: list[ThreadClocks], log_level: str) -> dict[str, Any]:
    return {
        "worker_class": "greenlane.hosts.gunicorn.Worker",
        "keepalive": _KEEPALIVE_S,
        # Nobody but the front reaches the socket; and of what passes it only what it sets itself is believed.
        "forwarded_allow_ips": "*",
        "forwarder_headers": "",
        "secure_scheme_headers": {"X-FORWARDED-PROTO": "https"},
        # The front has limits of its own, with answers that say so.
        "limit_request_line": 0,
        "limit_request_fields": 32_768,
        "limit_request_field_size": 1_000_000,
        "loglevel": log_level,
        "post_worker_init": lambda worker: ready(),
        "pre_request": lambda worker, req: clocks[0].begin(),
        "post_request": lambda worker, req, environ, resp: clocks[0].end(req.method, req.path),
        "control_socket_disable": True,
    }
