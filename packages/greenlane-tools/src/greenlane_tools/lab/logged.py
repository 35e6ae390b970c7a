"""A child process with a log file of its own, whose last words stand in the error when it does not come up.

What the systems of a checkout (systems/…) start their parts with.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import greenlane.errors
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.processes import Child

__all__ = ["Logged", "StartFailed", "found_by"]

_LAST_WORDS: Final = 2_000
_LOOK_S: Final = 0.02
_GREENLANE: Final = Path(greenlane.errors.__file__).resolve().parents[1]


class StartFailed(GreenlaneError):
    """A part of a system did not come up; the message ends with what it said last."""

    code = "system-start"


class Logged(Child):
    """A child, killed with the thread that started it: start it from one that lives as long as it shall.

    Args:
        command: argument vector.
        log: file that its stdout and stderr are added to.
        env: the whole environment.
        cwd: its working directory; None = ours.
    """

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path | None = None) -> None:
        self.command = list(command)
        self.log = log
        self.started_ns = time.monotonic_ns()
        with log.open("ab") as output:
            super().__init__(self.command, env, output, cwd, signal.SIGKILL)

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
            time.sleep(_LOOK_S)
        state = f"nothing after {seconds:g} s" if self.running() else f"exit status {self._process.returncode}"
        name = " ".join(self.command[:4])
        raise StartFailed(f"start {name}: {state}, expected {what}; it said:\n{self.said()}")

    def signal(self, number: int) -> None:
        """Sends it a signal; nothing when it has ended."""
        if self.running():
            self._process.send_signal(number)


def found_by(*folders: Path) -> dict[str, str]:
    """Our own environment, with import paths that lead to packages in `folders` and to the greenlane that runs now."""
    paths = [*map(str, folders), str(_GREENLANE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path for path in paths if path))}
