"""Where a service listens: "127.0.0.1:PORT" or "unix:PATH"."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time

from greenlane_tools.lab.processes import Child

__all__ = ["UNIX", "Connection", "connected", "port_of", "status", "wait_ready"]

UNIX = "unix:"
_LOOK_S = 0.02
#: A server that takes longer to answer is asked again.
_ANSWER_S = 30.0


class Connection(http.client.HTTPConnection):
    """HTTP over what `connected` gives."""

    def __init__(self, address: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._address = address

    def connect(self) -> None:
        """http.client's: makes the socket."""
        self.sock = connected(self._address, _ANSWER_S)


def connected(address: str, timeout_s: float) -> socket.socket:
    """A connection. Raises OSError."""
    if not address.startswith(UNIX):
        return socket.create_connection(("127.0.0.1", port_of(address)), timeout=timeout_s)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_s)
        connection.connect(address.removeprefix(UNIX))
    except BaseException:
        connection.close()
        raise
    return connection


def port_of(address: str) -> int:
    """The port; 0 of a Unix socket."""
    return 0 if address.startswith(UNIX) else int(address.rpartition(":")[2])


def status(address: str, path: str) -> int:
    """What a GET is answered with. Raises OSError or http.client.HTTPException."""
    connection = Connection(address)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def wait_ready(address: str, path: str, child: Child, seconds: float) -> bool:
    """Waits until it answers `path` below 500, or accepts connections when that is ""; False = the child exited, or
    `seconds` passed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and child.running():
        with contextlib.suppress(OSError, http.client.HTTPException):
            if path and status(address, path) < 500:
                return True
            if not path:
                connected(address, _ANSWER_S).close()
                return True
        time.sleep(_LOOK_S)
    return False
