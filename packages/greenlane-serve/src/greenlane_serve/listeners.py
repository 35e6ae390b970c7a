"""The public listening sockets, held by the parent so that nobody is refused while the front is replaced."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterable, Mapping
from typing import Any, Final

from greenlane.errors import FleetError, SettingsError

__all__ = ["listen", "listen_also"]

_BACKLOG: Final = 4096
_PORT_MAX: Final = 65535
_ATTEMPT: Final = "listen"


def listen(addresses: Iterable[str]) -> list[socket.socket]:
    """Sockets that listen, one for each address; all or none.

    Raises:
        SettingsError: an address is none, or names no host.
        FleetError: it is in use, or not ours to use.
    """
    with contextlib.ExitStack() as undone:
        sockets = [undone.enter_context(_socket(address)) for address in addresses]
        undone.pop_all()
    return sockets


def listen_also(addresses: Iterable[str], have: Mapping[str, socket.socket]) -> dict[str, socket.socket]:
    """A socket for each address, in this order: those that are there already, and new ones, as `listen`."""
    wanted = list(addresses)
    new = [address for address in wanted if address not in have]
    found = {**have, **dict(zip(new, listen(new), strict=True))}
    return {address: found[address] for address in wanted}


def _socket(address: str) -> socket.socket:
    try:
        return _unix(address) if address.startswith(("/", ".")) else _internet(address)
    except OSError as error:
        rule = f"an address that can be listened on ({error.strerror or error})"
        hint = "end what listens there, or choose another one"
        raise FleetError(_ATTEMPT, name="bind", value=address, rule=rule, hint=hint) from None


def _unix(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode) and not _answers(path):
            os.unlink(path)  # left by one that was killed
    return _bound(socket.socket(socket.AF_UNIX), path)


def _internet(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        if int(port) > _PORT_MAX:  # it would be another port, less 65536
            raise ValueError(f"{port} is over {_PORT_MAX}")
    except (socket.gaierror, ValueError, OverflowError) as error:
        rule, hint = f"a host and a port ({error})", "write it as 127.0.0.1:8000"
        raise SettingsError("bind", address, rule, hint, attempted=_ATTEMPT) from None
    family, kind, protocol, _, where = found[0]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return _bound(sock, where)


def _bound(sock: socket.socket, where: Any) -> socket.socket:
    try:
        sock.bind(where)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True
