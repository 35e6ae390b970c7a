"""A worker that is started again when it dies, as a container would be."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pos.children import Process

#: A worker that died is started again after this.
_AGAIN_S: Final = 0.3


class Worker:
    """A process that ought to run, whatever happens to it.

    Args:
        command: argument vector.
        environment: added to ours.
        log: of all its lives.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self._command, self._environment, self._log = command, environment, log
        #: Whether it is started again when it ends.
        self.wanted = True
        self.restarts = 0
        self._ended_s: float | None = None
        self.process = self._started()

    def look(self) -> None:
        """Starts it again when it ended by itself and is wanted. Called several times a second."""
        if not self.wanted or self.process.running():
            return
        now_s = time.monotonic()
        if self._ended_s is None:
            self._ended_s = now_s
            self.kill()  # what it had started
        elif now_s - self._ended_s > _AGAIN_S:
            self.restarts += 1
            self.start()

    def kill(self) -> None:
        """SIGKILL to it and all that it started, and wait: what a machine that dies looks like. Idempotent."""
        self._signal(signal.SIGKILL)
        self.process.wait(10)

    def pause(self) -> None:
        """SIGSTOP to it and all that it started."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def start(self) -> None:
        """Starts it now."""
        self.wanted, self._ended_s = True, None
        self.process = self._started()

    def ask_to_end(self) -> None:
        """SIGTERM, and it is not started again."""
        self.wanted = False
        self.process.signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _started(self) -> Process:
        return Process(self._command, self._log, self._environment)
