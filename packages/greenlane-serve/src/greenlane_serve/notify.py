"""systemd's notifications (`Type=notify`), where it asks for them. Source: sd_notify(3)."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping

__all__ = ["Notify"]


class Notify:
    """Says how far the service is. Every method is nothing where nobody asked."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)

    def ready(self) -> None:
        """It serves; also after a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """It replaces its workers."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """It ends."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """One line that `systemctl status` shows."""
        self._send(f"STATUS={text}")

    def _send(self, message: str) -> None:
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.sendto(message.encode(), self._address)
