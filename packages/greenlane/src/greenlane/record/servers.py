"""What is said of a recording without jobs: the server that was seen, those that are observed, and how to have jobs."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["JOB_LINES", "OBSERVED", "advice", "advice_by", "listening"]

#: As they are written in docs/recording.md, which says more.
OBSERVED: Final = (
    *("aiohttp", "celery", "cheroot", "daphne", "gevent.pywsgi", "granian", "gunicorn", "http.server", "hypercorn"),
    *("quart", "tornado", "uvicorn", "waitress", "wsgiref"),
)
#: What servers are made with: named where nothing else is.
_MADE_WITH: Final = ("asyncio", "gevent.server", "socketserver", "twisted.internet")
#: Loaded by many programs that serve with something else.
_BESIDE: Final = ("http.server", "wsgiref", "celery")

#: Around what answers one request of any server.
JOB_LINES: Final = """\
from greenlane.record import job
with job("request"):
    ...  # what answers one request
"""

_LISTENS: Final = "0A"
#: Flag of a Unix socket that accepts connections.
_ACCEPTS: Final = 0x10000
_OURS: Final = ".sock"


def advice(modules: Collection[str], addresses: Collection[str]) -> str:
    """Say why there are no jobs, and what to do; "" = no server was seen that is not observed.

    Args:
        modules: those of servers that the program had loaded.
        addresses: where it listened, as `listening` gives them.
    """
    own = sorted({*modules} - {*OBSERVED, *_MADE_WITH})
    if not own and (not addresses or {*modules} & {*OBSERVED} - {*_BESIDE}):
        return ""
    made_with = {*modules} & {*_MADE_WITH} - ({"socketserver"} if "http.server" in modules else set())
    seen = ", ".join(own or sorted(made_with)) or "of an unknown kind"
    where = f", listening on {', '.join(sorted(addresses))}" if addresses else ""
    lines = "".join(f"    {line}\n" for line in JOB_LINES.splitlines())
    return (
        f"a server was seen that is not observed: {seen}{where}\n"
        f"observed are {', '.join(OBSERVED)}\n"
        f"hint: make each request a job with these lines:\n{lines}".rstrip()
    )


def advice_by(
    abouts: Iterable[Mapping[str, Any]], modules: Collection[str] = (), addresses: Collection[str] = ()
) -> str:
    """The same by what processes say of themselves in a recording. `modules`, `addresses`: what else is known."""
    abouts = list(abouts)
    servers = {str(name) for about in abouts for name in about.get("servers") or ()}
    listens = {str(address) for about in abouts for address in about.get("listens") or ()}
    return advice(servers.union(modules), listens.union(addresses))


def listening(pid: int | str = "self") -> list[str]:
    """Give the addresses on which a process accepts connections: `127.0.0.1:8000`, `[::1]:8000`, a path. Never raises.

    Cost: some 20 us a socket of the machine; looks into `/proc` only.
    """
    about = Path("/proc", str(pid))
    inodes = set(_sockets(about))
    return sorted({address for address, inode in _accepting(about) if inode in inodes}) if inodes else []


def _sockets(about: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for fd in os.listdir(about / "fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(about / "fd" / fd)
                if target.startswith("socket:["):
                    yield target[8:-1]


def _accepting(about: Path) -> Iterator[tuple[str, str]]:
    """Addresses and inodes of all sockets of the network namespace that accept."""
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for fields in _rows(about / "net" / name):
            if len(fields) > 9 and fields[3] == _LISTENS:
                host, _, port = fields[1].partition(":")
                text = socket.inet_ntop(family, _address(host)).removeprefix("::ffff:")
                yield f"[{text}]:{int(port, 16)}" if ":" in text else f"{text}:{int(port, 16)}", fields[9]
    for fields in _rows(about / "net" / "unix"):
        if len(fields) > 7 and int(fields[3], 16) & _ACCEPTS and not fields[7].endswith(_OURS):
            yield fields[7], fields[6]


def _rows(table: Path) -> Iterator[list[str]]:
    with contextlib.suppress(OSError):
        for line in table.read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
            yield line.split()


def _address(host: str) -> bytes:
    """The kernel writes 32-bit words as its processor has them."""
    words = bytes.fromhex(host)
    return b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
