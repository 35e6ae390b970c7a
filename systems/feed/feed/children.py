"""Processes that the feed's site consists of: started on loopback, and gone when their parent is, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
# Below 32768, where Linux begins to give ports to outgoing connections.
_PORTS: Final = range(20_000, 32_000)
_libc = ctypes.CDLL(None, use_errno=True)
_given: set[int] = set()


class StartFailed(Exception):
    """A process of the site did not come up; the message ends with what it said last."""


def free_port() -> int:
    """A port of 127.0.0.1 below 32768 on which nobody listens now; another one at each call of this process."""
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port
    raise StartFailed(f"finding a free port: range={_PORTS!r}, expected one that is not in use")


class Process:
    """A child, with a log file of its own. Start it from a thread that lives as long as it shall.

    Args:
        command: argument vector.
        log: the file that its stdout and stderr go to.
        env: added to this process's environment.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.command = [str(part) for part in command]
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, **(env or {})}, preexec_fn=die_with_parent, process_group=0,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def running(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def wait_for_port(self, port: int, seconds: float = 20.0) -> None:
        """Blocks until 127.0.0.1:port accepts connections.

        Raises:
            StartFailed: the process ended, or `seconds` passed.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.running():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.02)
        state = f"no listener after {seconds:g} s" if self.running() else f"exit status {self._process.returncode}"
        said = self.log.read_text(errors="replace")[-2_000:]
        raise StartFailed(f"starting {self.command[0]}: port={port}, {state}; it said:\n{said}")

    def kill(self) -> None:
        """SIGKILL, and wait for it: what a crash looks like."""
        self._process.kill()
        self._process.wait()

    def end(self, grace_s: float = 3.0) -> None:
        """SIGTERM, after `grace_s` SIGKILL. Idempotent."""
        if self.running():
            self._process.terminate()
            try:
                self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()


def children_of(pid: int) -> list[int]:
    """What this process has started and not yet buried."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        # That thread may have ended.
        with contextlib.suppress(OSError):
            found += map(int, children.read_text().split())
    return found


def die_with_parent() -> None:
    """Asks the kernel for SIGKILL when the thread that started this process ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
