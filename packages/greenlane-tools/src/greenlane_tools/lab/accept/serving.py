"""One contender that serves: started with its application in a folder of its own, watched, ended."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane_tools.lab import listeners
from greenlane_tools.lab.accept.contenders import Contender
from greenlane_tools.lab.accept.environments import Environment
from greenlane_tools.lab.processes import Child, cpu_ns, free_port

__all__ = ["NotServing", "Service", "served"]

# gunicorn tries five times, a second apart, to make a socket that cannot be made.
_START_S: Final = 15.0
_LOOK_S: Final = 0.05
# What a settled server may use of a core: heartbeats.
_IDLE_FRAC: Final = 0.1
_EXCEPTIONS: Final = ("OSError", "RuntimeError", "ImportError", "ModuleNotFoundError")
#: gunicorn's "[2026-11-21 12:02:59 +0000] [28479] [ERROR] ".
_STAMP: Final = re.compile(r"^(\[[^\]]*\] ){2,3}")
#: What tells the reason in a log that ends with a traceback or with what the master made of it.
_REASONS: Final = ("Error", "error", "refused", "failed", "denied", "Can't")


class NotServing(Exception):
    """It did not come up; the message is the log's own reason."""


@dataclass
class Service:
    """A server with all its workers up."""

    child: Child
    # "127.0.0.1:8000" or "unix:/path".
    address: str
    folder: Path
    # Workers in the order in which they were started.
    workers: tuple[int, ...]

    def listeners(self) -> int:
        """Listening sockets of this address."""
        return len(listeners.listening(self.address))

    def noted(self, what: str) -> list[float]:
        """What the workers have written under this name since they started, in no order."""
        found = []
        for file in self.folder.glob("*.worker"):
            for line in file.read_text().splitlines():
                name, _, value = line.partition(" ")
                found += [float(value)] if name == what and value else []
        return found

    def forget(self) -> None:
        """Empties what the workers have written so far."""
        for file in self.folder.glob("*.worker"):
            os.truncate(file, 0)


@contextlib.contextmanager
def served(contender: Contender, environment: Environment, workers: int) -> Iterator[Service]:
    """Starts it, and ends it with all its processes whatever happens.

    Raises:
        NotServing: it ended, or not all workers came up within 15 s.
    """
    with tempfile.TemporaryDirectory(prefix="accept-") as name:
        folder = Path(name)
        shutil.copy(Path(__file__).with_name("answering.py"), folder)
        address = f"127.0.0.1:{free_port()}" if contender.family == "tcp" else str(folder / "socket")
        command = contender.command(str(environment.python), address, workers)
        env = {**_environment(), "ANSWERING_FOLDER": str(folder), **contender.env}
        with (folder / "log").open("wb") as log:
            child = Child(command, env, log, folder)
            try:
                address = address if contender.family == "tcp" else f"unix:{address}"
                service = Service(child, address, folder, _all_up(child, folder, workers))
                _wait_for_socket(service)
                yield service
            finally:
                child.end()


def _environment() -> dict[str, str]:
    """Ours without what would change the interpreter or the server that is started."""
    ours = ("PYTHON", "GUNICORN_", "UVICORN_", "GRANIAN_", "GREENLANE_", "WEB_CONCURRENCY", "VIRTUAL_ENV", "PORT")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _all_up(child: Child, folder: Path, workers: int) -> tuple[int, ...]:
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s:
        known = set(child.pids())
        up = [int(file.stem) for file in folder.glob("*.worker") if int(file.stem) in known]
        if len(up) >= workers:
            return tuple(sorted(up, key=_started))
        if not child.running() or _refused(folder):
            break
        time.sleep(_LOOK_S)
    raise NotServing(_reason(folder))


def _refused(folder: Path) -> bool:
    """gunicorn says that its socket cannot be made; it would try again and again."""
    return any("failed: [Errno" in line for line in (folder / "log").read_text(errors="replace").splitlines())


def _wait_for_socket(service: Service) -> None:
    """A worker has loaded the application before it listens."""
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s and service.child.running():
        if service.listeners() and not _stirs(service):
            return
        time.sleep(_LOOK_S)
    raise NotServing(_reason(service.folder))


def _stirs(service: Service) -> bool:
    """Some process of it still computes: it imports, or starts threads."""
    before_ns = cpu_ns(service.child.pids())
    time.sleep(_LOOK_S)
    return cpu_ns(service.child.pids()) - before_ns > _LOOK_S * 1e9 * _IDLE_FRAC


def _reason(folder: Path) -> str:
    lines = [line.strip() for line in (folder / "log").read_text(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if any(sign in line for sign in _REASONS)]
    # An exception with its number is the cause; other lines are consequences.
    cause = [line for line in lines if "[Errno" in line or line.startswith(_EXCEPTIONS)]
    return _STAMP.sub("", (cause or told or lines or ["it said nothing"])[0])[:300]


def _started(pid: int) -> tuple[int, int]:
    """Start time in the kernel's clock ticks, then the process id."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]), pid
    except OSError:
        return 0, pid
