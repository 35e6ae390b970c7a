"""Starts the command for real, on a free port or a socket of our own, and counts who listens."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane_tools.lab import listeners
from greenlane_tools.lab.doctor.command import Parsed
from greenlane_tools.lab.doctor.subject import Subject
from greenlane_tools.lab.processes import Child, cpu_ns, free_port

_START_S: Final = 30.0
_LOOK_S: Final = 0.2
# How long all workers may take once the first listens.
_SETTLE_S: Final = 10.0
# What a settled server may use of a core.
_IDLE_FRAC: Final = 0.1
# Flags that name where it listens or writes its pid; a word follows each.
_BINDS: Final = {
    "gunicorn": ("-b", "--bind", "-p", "--pid"),
    "uvicorn": ("--host", "--port", "--uds", "--fd"),
    "granian": ("--host", "--port", "--uds"),
}
_SETTINGS: Final = tuple(f"{one}_{name}" for one in ("UVICORN", "GRANIAN") for name in ("HOST", "PORT", "UDS", "FD"))


@dataclass(frozen=True)
class Seen:
    """What ran."""

    # Listening sockets; 0 = it did not come up.
    listeners: int
    # Processes that have one of them open.
    processes: int
    # The end of its log, where it did not come up.
    said: str = ""


def look(parsed: Parsed, subject: Subject) -> Seen:
    """Starts it, waits until it has settled, counts, ends it. The application is imported and started.

    Blocks up to 30 s. Its sockets are ours: nothing of a running service is touched.
    """
    if subject.value("daemon"):
        return Seen(0, 0, "daemon = True: it was not started, since it could not be ended")
    with tempfile.TemporaryDirectory(prefix="doctor-") as name:
        folder = Path(name)
        address = f"unix:{folder / 'socket'}" if subject.unix else f"127.0.0.1:{free_port()}"
        ours = ["--pid", str(folder / "pid")] if parsed.server == "gunicorn" else []
        if "control_socket_disable" in subject.settings:  # a running service may have the socket of that name
            ours.append("--no-control-socket")
        bound = _bound(parsed.server, parsed.arguments, address)
        command = [parsed.python, "-m", _module(parsed.server), *ours, *bound]
        env = {key: value for key, value in {**os.environ, **parsed.env}.items() if key not in _SETTINGS}
        with (folder / "log").open("wb") as log:
            child = Child(command, env, log, Path.cwd())
            try:
                return _counted(child, address, folder / "log", subject.number("workers") or 1)
            finally:
                child.end()


def _module(server: str) -> str:
    # `python -m gunicorn` is younger than gunicorn.
    return "gunicorn.app.wsgiapp" if server == "gunicorn" else server


def _bound(server: str, arguments: Sequence[str], address: str) -> list[str]:
    """The arguments with another address; the application is the last of them, so ours go in front."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        flag, assigned, _ = word.partition("=")
        if flag in _BINDS[server]:
            if not assigned:
                next(words, None)
        elif not (server == "gunicorn" and word.startswith(("-b", "-p")) and not word.startswith("--")):
            kept.append(word)
    path, (host, _, port) = address.removeprefix("unix:"), address.rpartition(":")
    if server == "gunicorn":
        return ["--bind", address, *kept]
    return ["--uds", path, *kept] if address.startswith("unix:") else ["--host", host, "--port", port, *kept]


def _counted(child: Child, address: str, log: Path, workers: int) -> Seen:
    until_s = time.monotonic() + _START_S
    settled_by_s = until_s
    while time.monotonic() < until_s and child.running():
        time.sleep(_LOOK_S)
        seen = _seen(child, address)
        if not seen.listeners:
            continue
        settled_by_s = min(settled_by_s, time.monotonic() + _SETTLE_S)
        # A process that gets no core looks idle: wait for as many listeners as workers, unless time is up.
        if _idle(child) and (seen.processes >= workers or time.monotonic() > settled_by_s):
            return _seen(child, address)
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return Seen(0, 0, "\n".join(lines[-6:]))


def _seen(child: Child, address: str) -> Seen:
    found = listeners.listening(address)
    held = listeners.held(child.pids())
    holders: set[int] = set().union(*(held.get(one.inode, set()) for one in found))
    return Seen(len(found), len(holders))


def _idle(child: Child) -> bool:
    before_ns = cpu_ns(child.pids())
    time.sleep(_LOOK_S)
    return cpu_ns(child.pids()) - before_ns < _IDLE_FRAC * _LOOK_S * 1e9
