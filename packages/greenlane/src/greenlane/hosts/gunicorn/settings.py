"""Checks of gunicorn's and Greenlane's settings: what cannot hold is refused by name, in the arbiter.

docs/gunicorn.md says what each setting of gunicorn means under this worker; a test holds that none is missing.
"""

from __future__ import annotations

from typing import Any, Final

from greenlane.errors import HostError
from greenlane.probes import explain_gevent
from greenlane.settings import SETTINGS, Settings, load
from greenlane.wiring import process

__all__ = ["ceiling", "check", "most_kept_alive"]

_ATTEMPT: Final = "set up gunicorn's worker"

_REUSE_PORT: Final = "So a worker leaves no connection to a less busy one; each has listening sockets of its own"


def check(cfg: Any, log: Any) -> Settings:
    """Check gunicorn's and Greenlane's settings in the arbiter, and log how `threads` is read.

    Raises:
        GreenlaneError: something cannot hold; the message names it.
    """
    settings = load()
    # Here in the arbiter, where a wrong set-up ends with exit code 2, and not in the worker, which would be restarted.
    process.check_platform()
    if settings.control_dir:
        from greenlane.control.protocol import check_directory

        check_directory(settings.control_dir)
    most = int(SETTINGS["threads"].high or 0)
    if not 1 <= cfg.threads <= most:
        raise HostError(_ATTEMPT, name="threads", value=cfg.threads, rule=f"1 to {most}", hint="lower --threads")
    if cfg.worker_connections < 1:
        raise HostError(
            _ATTEMPT,
            name="worker_connections",
            value=cfg.worker_connections,
            rule="at least 1",
            hint="leave it out, or set Greenlane's `limit` to limit requests",
        )
    if (why := explain_gevent()) is not None:
        raise HostError(_ATTEMPT, name="gevent.monkey", value="patched", rule="threads", hint=why)
    if cfg.threads == 1:
        log.info(
            "greenlane: threads is not set: up to %d per worker, started on demand (setting `threads`)",
            settings.threads,
        )
    elif cfg.keepalive and most_kept_alive(cfg, settings) <= 0:
        log.warning("No keepalived connections can be handled. Check the number of worker connections and threads.")
    if cfg.reuse_port and cfg.workers > 1:
        log.info("greenlane: reuse_port: %s", _REUSE_PORT)
    return settings


def ceiling(cfg: Any, settings: Settings) -> int:
    """Most threads of a worker: gunicorn's `threads` when it is set (over 1), else Greenlane's."""
    return int(cfg.threads) if cfg.threads > 1 else settings.threads


def most_kept_alive(cfg: Any, settings: Settings) -> int:
    """How many connections may be kept idle: gthread's rule; our own default ceiling reserves at most half of them."""
    reserved = ceiling(cfg, settings)
    if cfg.threads <= 1:
        reserved = min(reserved, cfg.worker_connections // 2)
    return int(cfg.worker_connections) - reserved
