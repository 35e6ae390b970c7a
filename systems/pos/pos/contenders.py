"""Whom orders go through: stock Celery in each of its pools, and Greenlane; their command lines."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from pos.children import Process
from pos.queueing import QUEUE
from pos.surroundings import VARIABLE

# --- What Greenlane's workers tell of themselves: each has a socket in the site's folder, a line of JSON each way.


#: The folder of the sockets, below the site's: `<pid>.sock`. A socket's path may have 107 bytes: names are short.
FOLDER: Final = "ctl"
_ANSWER_S: Final = 1.0
_MOST: Final = 4 << 20


def look(path: Path) -> dict[str, Any] | None:
    """One worker's orders: slots, running, parked, and `keys`, a row each; None when nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_ANSWER_S)
            asking.connect(str(path))
            asking.sendall(b'{"do": "show"}\n')
            said = b""
            while not said.endswith(b"\n") and len(said) < _MOST and (new := asking.recv(1 << 16)):
                said += new
        tasks: dict[str, Any] | None = json.loads(said).get("tasks")
    except (OSError, ValueError):
        return None
    return tasks


def look_at_all(folder: Path) -> list[dict[str, Any]]:
    """All workers whose sockets are in the folder."""
    found = (look(path) for path in sorted(folder.glob("*.sock")))
    return [one for one in found if one is not None]


def together(workers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Merchant -> parked, running, limit of all workers, and the breaker that is least closed."""
    keys: dict[str, dict[str, Any]] = {}
    for worker in workers:
        for one in worker["keys"]:
            key = keys.setdefault(one["key"], {"parked": 0, "running": 0, "limit": 0, "breaker": "closed"})
            for name in ("parked", "running", "limit"):
                key[name] += one[name]
            if one["breaker"] != "closed":
                key["breaker"] = one["breaker"]
    return keys


#: Beside what queueing.py sets. Without the last one Celery's gevent pool takes ten orders a second: after each of them
#: it looks for 100 ms at the connection on which it tells others that it lives.
_ALONE: Final = ("--without-gossip", "--without-mingle", "--without-heartbeat")
OURS: Final = "greenlane"


class Contender(Protocol):
    """A worker."""

    @property
    def name(self) -> str:
        """As rows call it."""

    @property
    def slots(self) -> int:
        """Orders that it can be at work on at once."""

    def command(self, queue: str, folder: Path) -> list[str]:
        """Argument vector of a worker on this queue; what it keeps is below `folder`."""
        ...


@dataclass(frozen=True)
class Stock:
    """Celery's own worker in one of its pools."""

    name: str
    pool: str
    slots: int

    def command(self, queue: str, folder: Path) -> list[str]:
        """As `Contender`."""
        options = ["-P", self.pool, "-c", str(self.slots), "-Q", queue, "-l", "WARNING", *_ALONE]
        return [sys.executable, "-m", "celery", "-A", "pos.worker", "worker", "-n", f"{self.name}@%h", *options]


@dataclass(frozen=True)
class Loop:
    """No Celery: a program on one asyncio loop."""

    name: str
    slots: int

    def command(self, queue: str, folder: Path) -> list[str]:
        """As `Contender`."""
        return [sys.executable, "-m", "pos.asyncio_worker", "--queue", queue, "--slots", str(self.slots)]


@dataclass(frozen=True)
class Ours:
    """`greenlane celery` with one bulkhead per merchant, and a store of what was done that all its workers share."""

    name: str
    slots: int
    is_green: bool = False

    def command(self, queue: str, folder: Path) -> list[str]:
        """As `Contender`."""
        flags = {
            "--slots": self.slots, "--key": "kwargs.merchant", "--task-store": store_url(folder),
            "--control-dir": folder / FOLDER,
        }  # fmt: skip
        program = Path(sys.executable).with_name("greenlane")
        options = [str(part) for flag, value in flags.items() for part in (flag, value)]
        green = ["--green"] if self.is_green else []
        return [str(program), "celery", "pos.worker:app", *green, *options, "--", "-Q", queue, "-l", "WARNING"]


_ALL: Final[tuple[Contender, ...]] = (
    Stock("prefork-3", "prefork", 3),
    Stock("prefork-4", "prefork", 4),
    Stock("prefork-16", "prefork", 16),
    Stock("threads-100", "threads", 100),
    Stock("gevent-200", "gevent", 200),
    Loop("asyncio-200", 200),
    Ours(OURS, 200),
    Ours(f"{OURS}-green", 200, is_green=True),
)
CONTENDERS: Final[Mapping[str, Contender]] = {one.name: one for one in _ALL}


def store_url(folder: Path) -> str:
    """The store of what was called, below the site's folder."""
    return f"sqlite:///{folder.absolute() / 'done.db'}"


def start(contender: Contender, surroundings: Path, log: Path, queue: str = QUEUE) -> Process:
    """Starts a worker; does not wait for it.

    Args:
        contender: which.
        surroundings: the file that says where everything is; what workers keep is beside it.
        log: where it writes what it has to say.
        queue: from which it takes orders.
    """
    added = {VARIABLE: str(surroundings), "PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", "default")}
    if os.geteuid() == 0:
        # Celery warns when run as root; in a container it always is.
        added["C_FORCE_ROOT"] = "1"
    return Process(contender.command(queue, surroundings.parent), log, added)
