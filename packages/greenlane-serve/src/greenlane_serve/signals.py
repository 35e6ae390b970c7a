"""Signals as bytes of a pipe, so that one loop meets them between two other things, never inside one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

__all__ = ["Signals"]


class Signals:
    """From now on the named signals do nothing but wake who reads `fd`. The main thread's only."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in numbers}

    def taken(self) -> set[int]:
        """The signals since the last call."""
        try:
            return set(os.read(self.fd, 4096)) & set(self._before)
        except BlockingIOError:
            return set()

    def close(self) -> None:
        """Let signals do what they did before."""
        signal.set_wakeup_fd(-1)
        for number, action in self._before.items():
            signal.signal(number, action)
        os.close(self.fd)
        os.close(self._write_fd)


def _nothing(number: int, frame: object) -> None:
    """Its being set lets the wake-up byte be written, where SIG_IGN would not."""
