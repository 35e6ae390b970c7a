"""What HAProxy says on stderr, passed on to ours without what it says whenever it ends.

When one ends or is replaced it tells of every proxy that it stops: a line for each group, gate and socket, several at
each reload, and news of none. Everything else goes on as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Final

__all__ = ["Said", "news"]

_READ_BYTES: Final = 65536
# A line that is longer goes on in pieces.
_LINE_BYTES: Final = 65536
_STOPPED: Final = re.compile(rb"\[WARNING\] +\(\d+\) : Proxy \S+ stopped \(cumulated conns: FE: \d+, BE: \d+\)\.\n?")


def news(lines: list[bytes]) -> list[bytes]:
    """Those lines that tell something."""
    return [line for line in lines if not _STOPPED.fullmatch(line)]


class Said:
    """A pipe for the stderr of fronts. They never wait for us: what does not fit into it is lost.

    Args:
        to: the descriptor that the lines go to.
    """

    def __init__(self, to: int = 2) -> None:
        #: Readable when a front has said something.
        self.fd, self.write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._to = to
        self._begun = b""

    def pass_on(self) -> None:
        """Pass on the whole lines that are there. Blocks while who reads ours does not."""
        try:
            while came := os.read(self.fd, _READ_BYTES):
                *lines, self._begun = (self._begun + came).splitlines(keepends=True) or [b""]
                if self._begun.endswith(b"\n") or len(self._begun) > _LINE_BYTES:
                    lines, self._begun = [*lines, self._begun], b""
                self._write(lines)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Pass on what is left. After the last front has ended."""
        self.pass_on()
        self._write([self._begun])
        os.close(self.fd)
        os.close(self.write_fd)

    def _write(self, lines: list[bytes]) -> None:
        left = memoryview(b"".join(news(lines)))
        with contextlib.suppress(OSError):  # nobody reads ours: the service goes on without
            while left:
                left = left[os.write(self._to, left) :]
