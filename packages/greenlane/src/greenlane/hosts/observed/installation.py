"""All observers of hosts at once."""

from __future__ import annotations

from typing import Final, Protocol

from greenlane.hosts.observed import aiohttp, asgi, celery, cheroot, gunicorn, http_server, waitress

__all__ = ["install", "uninstall"]


class Host(Protocol):
    """A module of this package. It imports nothing of its host: the observer is placed when the program does."""

    def install(self) -> None:
        """Place the observers. Idempotent."""

    def uninstall(self) -> None:
        """Put the host back as it was. Idempotent."""


_HOSTS: Final[tuple[Host, ...]] = (gunicorn, http_server, waitress, cheroot, celery, asgi, aiohttp)


def install() -> None:
    """Place the observers in the hosts that are imported, and in the others when they are. Idempotent."""
    for host in _HOSTS:
        host.install()


def uninstall() -> None:
    """Put the hosts back as they were. Idempotent; jobs under way end as they began."""
    for host in _HOSTS:
        host.uninstall()
