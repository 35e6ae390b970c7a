"""Listening sockets as the kernel lists them: the processes that could accept a connection for this address.

    TCP            /proc/net/tcp, /proc/net/tcp6: state 0A, a line a socket
    Unix           /proc/net/unix: flag 00010000 (SO_ACCEPTCONN), a line a socket
    who has it     /proc/<pid>/fd: "socket:[inode]"

One line = one queue of connections. Four workers with one line share a queue; with four lines each has its own, and a
connection that the kernel has put into one of them is never moved to another. Nothing is sent or changed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LISTEN: Final = "0A"
_ACCEPTS: Final = 0x0001_0000
_PROC: Final = Path("/proc")


@dataclass(frozen=True)
class Listener:
    """One listening socket."""

    # "tcp", "tcp6" or "unix".
    family: str
    # "127.0.0.1:8000", "[::1]:8000", "/run/app.sock"; abstract names begin with "@".
    address: str
    # What identifies the socket.
    inode: int

    @property
    def port(self) -> int:
        """TCP port; 0 = a Unix socket."""
        return 0 if self.family == "unix" else int(self.address.rpartition(":")[2])


def listening(address: str, pid: int | str = "self") -> list[Listener]:
    """Sockets that listen for `address`, one entry each.

    Args:
        address: "host:port", where the host is not looked at (a listener on 0.0.0.0 takes it too), or "unix:/path".
        pid: whose network namespace.
    """
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        return [one for one in _all("unix", pid) if one.address == path]
    port = int(address.rpartition(":")[2])
    return [one for family in ("tcp", "tcp6") for one in _all(family, pid) if one.port == port]


def held(pids: Iterable[int]) -> dict[int, set[int]]:
    """Which of these processes has which socket open: process ids by inode. Processes that are gone have none."""
    found: dict[int, set[int]] = {}
    for pid in pids:
        for inode in _sockets(pid):
            found.setdefault(inode, set()).add(pid)
    return found


def of_text(family: str, text: str) -> list[Listener]:
    """The listeners in the text of /proc/net/<family>."""
    parse = _unix if family == "unix" else _tcp
    return [one for line in text.splitlines()[1:] if (one := parse(family, line)) is not None]


def _all(family: str, pid: int | str) -> list[Listener]:
    try:
        return of_text(family, (_PROC / str(pid) / "net" / family).read_text(errors="replace"))
    except OSError:  # no IPv6, or the process is gone
        return []


def _tcp(family: str, line: str) -> Listener | None:
    fields = line.split()
    if len(fields) < 10 or fields[3] != _LISTEN:
        return None
    host, _, port = fields[1].partition(":")
    # Each 32-bit word of the address is printed as a number of this machine.
    words = b"".join(struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8))
    if family == "tcp6":
        return Listener(family, f"[{socket.inet_ntop(socket.AF_INET6, words)}]:{int(port, 16)}", int(fields[9]))
    return Listener(family, f"{socket.inet_ntop(socket.AF_INET, words)}:{int(port, 16)}", int(fields[9]))


def _unix(family: str, line: str) -> Listener | None:
    # Num RefCount Protocol Flags Type St Inode Path; the path may hold spaces.
    fields = line.split(maxsplit=7)
    if len(fields) < 8 or not int(fields[3], 16) & _ACCEPTS:
        return None
    return Listener(family, fields[7], int(fields[6]))


def _sockets(pid: int) -> Iterator[int]:
    folder = _PROC / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            target = os.readlink(folder / name)
            if target.startswith("socket:["):
                yield int(target[8:-1])
