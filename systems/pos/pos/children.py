"""Processes that pos consists of: each has a log file, and none outlives the process that started it."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane.errors import GreenlaneError
from greenlane.lab.processes import Child, descendants, free_port

from .interpreter import environment

__all__ = ["Process", "StartFailed", "descendants", "free_port"]

_LAST_WORDS: Final = 2_000


class StartFailed(GreenlaneError):
    """A part of pos did not come up; the message ends with what it said last."""

    code = "pos-start"


class Process(Child):
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
            super().__init__(self.command, {**environment(), **(added or {})}, output, cwd, signal.SIGKILL)

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
