"""What the front needs of its worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from greenlane.hosts.gunicorn_conn import Conn

__all__ = ["Served"]


class Served(Protocol):
    """What the front needs of its worker."""

    cfg: Any
    log: Any
    # Told to stop when False.
    alive: bool
    sockets: Sequence[Any]
    # All requests come from the front of `greenlane serve`, over Unix sockets.
    behind_front: bool
    # The worker is at its `max_requests` and its successor does not run yet.
    recycling: bool

    def notify(self) -> None:
        """Tell the arbiter that this worker lives."""

    def is_parent_alive(self) -> bool:
        """Whether the arbiter is still our parent."""

    def special(self, head: bytes) -> bytes | None:
        """The answer to a health or metrics request; None = one for the application."""

    def capacity(self) -> int:
        """Requests in progress that count as full just now."""

    def note(self, what: str) -> None:
        """Count an event by its name."""

    def note_refusal(self) -> None:
        """Count a request that was refused over a limit, and let the log know now and then."""

    def due_ns(self, head: bytes, arrival_ns: int) -> int:
        """The deadline of a request that no thread has looked at; 0 = none."""

    def too_late(self, conn: Conn) -> bool:
        """Whether a request is refused because it would end too late. Behind the front only."""
