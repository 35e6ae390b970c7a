"""Processes that pos consists of: each has a log file, and none outlives the process that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane.errors import GreenlaneError

from .interpreter import environment

_PR_SET_PDEATHSIG: Final = 1
_LAST_WORDS: Final = 2_000
# From 32768 on Linux takes ports for connections that go out.
_PORTS: Final = range(20_000, 32_000)
_given: Final[set[int]] = set()
_libc = ctypes.CDLL(None, use_errno=True)


class StartFailed(GreenlaneError):
    """A part of pos did not come up; the message ends with what it said last."""

    code = "pos-start"


class Process:
    """A child. Start it from a thread that lives as long as it shall.

    Args:
        command: argument vector.
        log: file that its stdout and stderr are added to.
        added: variables added to its environment.
        cwd: its working directory; None = ours.
    """

    def __init__(
        self, command: Sequence[str], log: Path, added: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.command = list(command)
        self.log = log
        self.started_ns = time.monotonic_ns()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd,
                env={**environment(), **(added or {})}, preexec_fn=_die_with_parent, process_group=0,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def running(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def pids(self) -> list[int]:
        """It and its descendants, itself first; empty when it has ended."""
        return descendants(self.pid) if self.running() else []

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-_LAST_WORDS:]

    def wait_for_port(self, port: int, seconds: float = 60.0) -> None:
        """Blocks until 127.0.0.1:port accepts connections.

        Raises:
            StartFailed: it ended, or `seconds` passed.
        """

        def accepts() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return True
            return False

        self.wait_until(accepts, f"a listener on port {port}", seconds)

    def wait_until(self, reached: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        """Blocks until `reached()`, which is asked every 20 ms.

        Raises:
            StartFailed: it ended, or `seconds` passed.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.running():
            if reached():
                return
            time.sleep(0.02)
        state = f"nothing after {seconds:g} s" if self.running() else f"exit status {self._process.returncode}"
        name = " ".join(self.command[:4])
        raise StartFailed(f"start {name}: {state}, expected {what}; it said:\n{self.said()}")

    def signal(self, number: int) -> None:
        """Sends it a signal; nothing when it has ended."""
        if self.running():
            self._process.send_signal(number)

    def wait(self, seconds: float) -> int | None:
        """Its exit status, negative = the signal that killed it; None when it still runs after `seconds`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def kill(self) -> None:
        """SIGKILL to it and all that it started: what a crash of its machine looks like. Idempotent."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def end(self, grace_s: float = 3.0) -> int | None:
        """SIGTERM, after `grace_s` SIGKILL to it and all that it started; its exit status. Idempotent."""
        family = self.pids()
        self.signal(signal.SIGTERM)
        if self.wait(grace_s) is None:
            self.kill()
        for pid in family[1:]:
            if _ours(pid, family):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return self._process.returncode


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens now; another one at each call. It is not reserved.

    Raises:
        StartFailed: all are in use.
    """
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
    raise StartFailed("find a port", name="range", value=_PORTS, rule="one that is not in use")


def descendants(pid: int) -> list[int]:
    """A process and all that it and its children have started, as of now; empty when it is gone."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{one}/task"):
                found += map(int, Path(f"/proc/{one}/task/{thread}/children").read_text().split())
    return found if os.path.exists(f"/proc/{pid}") else []


def _ours(pid: int, family: Sequence[int]) -> bool:
    """A process of the family that was left behind, not a stranger with its number."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return parent in (1, os.getpid(), *family)


def _die_with_parent() -> None:
    """Runs between fork and exec: the kernel kills the child when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
