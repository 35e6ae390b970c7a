"""Processes that pos consists of: started on loopback, and gone when their parent is, however it ends."""

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
    """A process of pos did not come up; the message ends with what it said last."""


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
    """A child that leads a process group, with a log file of its own. Start it from a thread that lives as long.

    Args:
        command: argument vector.
        log: the file that its stdout and stderr are appended to.
        env: added to this process's environment.
        cwd: its working directory; None = ours.
    """

    def __init__(
        self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.command = [str(part) for part in command]
        self.log = log
        self._told_before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd,
                env={**os.environ, **(env or {})}, preexec_fn=die_with_parent, process_group=0,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative = the signal that ended it."""
        return self._process.poll()

    def running(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def said(self) -> str:
        """What this process, not one before it, wrote into its log."""
        with self.log.open("rb") as log:
            log.seek(self._told_before)
            return log.read().decode(errors="replace")

    def wait_for_words(self, words: str, seconds: float = 20.0) -> None:
        """Blocks until its log holds `words`.

        Raises:
            StartFailed: it ended, or `seconds` passed.
        """
        until = time.monotonic() + seconds
        while words not in self.said():
            if time.monotonic() > until or not self.running():
                raise self._failed(f"words={words!r}", seconds)
            time.sleep(0.02)

    def wait_for_port(self, port: int, seconds: float = 20.0) -> None:
        """Blocks until 127.0.0.1:port accepts connections.

        Raises:
            StartFailed: it ended, or `seconds` passed.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.running():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.02)
        raise self._failed(f"port={port}", seconds)

    def signal(self, number: int, *, group: bool = False) -> None:
        """Sends a signal to it, or to its whole group; nothing happens when it has ended."""
        if self.running():
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.pid, number)

    def pause(self) -> None:
        """SIGSTOP to it and all that it started: it is there and does nothing."""
        self.signal(signal.SIGSTOP, group=True)

    def go_on(self) -> None:
        """SIGCONT: ends `pause`."""
        self.signal(signal.SIGCONT, group=True)

    def kill(self) -> None:
        """SIGKILL to it and all that it started, and wait: what a machine that dies looks like. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds: float) -> int | None:
        """Blocks until it has ended, at most `seconds`; its exit code, None when it still runs."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self, grace_s: float = 3.0) -> int:
        """SIGTERM, after `grace_s` SIGKILL to it and all that it started; its exit code. Idempotent."""
        if self.running():
            self._process.terminate()
            self.wait(grace_s)
        self.kill()
        return self._process.wait()

    def _failed(self, awaited: str, seconds: float) -> StartFailed:
        code = self.exit_code
        state = f"nothing after {seconds:g} s" if code is None else f"exit status {code}"
        return StartFailed(f"starting {self.command[0]}: {awaited}, {state}; it said:\n{self.said()[-2_000:]}")


def die_with_parent() -> None:
    """Asks the kernel for SIGKILL when the thread that started this process ends. Between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
