"""All observers of hosts at once."""

from __future__ import annotations

import contextlib
import importlib
from typing import Final, Protocol

__all__ = ["install", "uninstall"]

#: One module a host. It imports nothing of its host: what it observes is placed when the program imports the host.
_HOSTS: Final = ("gunicorn", "http_server", "waitress", "cheroot", "celery", "asgi", "aiohttp")


class Host(Protocol):
    """A module of this package."""

    def install(self) -> None:
        """Place the observers. Idempotent."""

    def uninstall(self) -> None:
        """Put the host back as it was. Idempotent."""


def install() -> None:
    """Place the observers in the hosts that are imported, and in the others when they are. Idempotent."""
    for host in _modules():
        host.install()


def uninstall() -> None:
    """Put the hosts back as they were. Idempotent; jobs under way end as they began."""
    for host in _modules():
        host.uninstall()


def _modules() -> list[Host]:
    found: list[Host] = []
    for name in _HOSTS:
        with contextlib.suppress(ModuleNotFoundError):
            found.append(importlib.import_module(f"{__package__}.{name}"))
    return found
