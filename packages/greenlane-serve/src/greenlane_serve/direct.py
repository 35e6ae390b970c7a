"""No front: the workers of an ASGI application without lanes accept clients themselves, from one listening socket each
address.

They share the socket and none has its own (SO_REUSEPORT): the kernel gives each socket its share of connections whether
its worker is busy or not, and what waits at a socket whose worker ends is lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane_serve.haproxy.front import Haproxy
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.settings import ServeSettings

__all__ = ["NoFront", "check"]

# What only the front does.
_FRONTS: Final = (
    "lanes", "at_once", "auto_lane", "versions", "trusted_proxies", "proxy_protocol", "client_connections",
    "half_closed", "tls_bind", "metrics_bind", "metrics_path", "alive_path", "access_log", "request_id_header",
    "replace_stuck", "max_requests", "queue_s", "target_max_bytes", "headers_max", "head_max_bytes", "body_first",
    "websockets", "http2", "front_threads",
)  # fmt: skip


def check(settings: ServeSettings, kind: str) -> None:
    """Refuse settings that need the front.

    Raises:
        SettingsError: the application is WSGI, or a setting needs the front.
    """
    hint = "leave it out, or leave out direct"
    if kind != "asgi":
        raise SettingsError("direct", True, "an ASGI application", hint, attempted="serve without a front")
    usual = ServeSettings()
    for name in _FRONTS:
        if (value := getattr(settings, name)) != getattr(usual, name):
            raise SettingsError(name, value, "nothing that only the front does, with direct = true", hint,
                                attempted="serve without a front")  # fmt: skip


class _Silent(Runtime):
    """In place of the front's socket: commands do nothing."""

    def ask(self, command: str) -> str:
        """Do nothing."""
        return ""

    def pid(self) -> int:
        """Ours: it is always there."""
        return os.getpid()


class NoFront(Haproxy):
    """Stands where the tree has HAProxy."""

    def __init__(self, folder: Path) -> None:
        self.program, self.version = "", "none"
        self.runtime = _Silent(folder)
        self.child: Any = SimpleNamespace(pid=os.getpid())
        self.leaving = {}

    def run(self, text: str, fds: Sequence[int]) -> None:
        """Do nothing."""

    def died(self, pid: int, code: int) -> bool:
        """It never does."""
        return False

    @property
    def running(self) -> bool:
        """Nothing has to end before the workers."""
        return False
