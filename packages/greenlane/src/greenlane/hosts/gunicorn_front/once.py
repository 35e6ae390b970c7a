"""A warning that is logged once: what goes wrong at every request must not fill the log."""

from __future__ import annotations

from greenlane.hosts.gunicorn_front.served import Served

__all__ = ["Once"]


class Once:
    """Logs the first of all such events only."""

    def __init__(self, worker: Served) -> None:
        self._worker = worker
        self._warned = False

    def warn(self, message: str, trace: bool = False) -> None:
        """Log it, unless something has been logged here before."""
        if not self._warned:
            self._warned = True
            self._worker.log.warning("greenlane: %s (told once)", message, exc_info=trace)
