"""Which of four waiting processes gets the next connection: the kernel's part, without a server.

What comes out depends on the kernel (which end of the wait queue it wakes first) and is recorded, never expected.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.errors import HostError
from greenlane_tools.lab import listeners
from greenlane_tools.lab.processes import Child

MECHANISMS: Final = ("epoll", "epoll-exclusive", "blocking-accept", "reuse-port")
_START_S: Final = 10.0


@dataclass(frozen=True)
class Split:
    """Connections by process, in fork order."""

    mechanism: str
    counts: tuple[int, ...]
    listeners: int


def split(mechanism: str, processes: int, connections: int) -> Split:
    """Connects `connections` times, one after another, and counts who answered.

    Raises:
        HostError: its processes did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="accept-") as folder, (Path(folder) / "port").open("w+b") as said:
        script = str(Path(__file__).with_name("acceptor.py"))
        child = Child([sys.executable, "-I", script, mechanism, str(processes)], {}, said.fileno(), Path(folder))
        try:
            port = _port(said.name, child, processes)
            counts = [0] * processes
            for _ in range(connections):
                counts[_asked(port)] += 1
            return Split(mechanism, tuple(counts), len(listeners.listening(f"127.0.0.1:{port}")))
        finally:
            child.end()


def _port(file: str, child: Child, processes: int) -> int:
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s and child.running():
        text = Path(file).read_text().strip()
        if text and _all_wait(child, processes):
            return int(text)
        time.sleep(0.02)
    raise HostError(
        "start the accepting processes",
        name="they said",
        value=Path(file).read_text()[-200:],
        rule="a port of 127.0.0.1",
    )


def _all_wait(child: Child, processes: int) -> bool:
    """Every one of them is there and asleep, which it is only in its wait for a connection."""
    pids = child.pids()[1:]
    return len(pids) == processes and all(_asleep(pid) for pid in pids)


def _asleep(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return False


def _asked(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        return client.recv(1)[0]
