"""A worker process: waits for calls, runs them one after the other, answers each.

It ends when its parent does (the kernel kills it), when the parent closes its channel, or when it dies of a call.
"""

from __future__ import annotations

import _socket
import contextlib
import faulthandler
import gc
import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final, TextIO

from greenlane._native import die_with_parent
from greenlane.placement.processes import inside
from greenlane.placement.processes.answers import error_parcel
from greenlane.placement.processes.messages import ERROR, READY, End, Page
from greenlane.placement.processes.parcel import Parcel, pack
from greenlane.placement.processes.runner import Runner

__all__ = ["main"]

# Descriptors that a worker begins with.
_SOCKET, _PAGE, _CRASH = 3, 4, 5
# The kernel keeps 15 bytes.
_NAME: Final = b"greenlane-pool"
# Of 1000, added to the parent's oom_score_adj: as if the worker used a fifth of the memory more. Arbitrary.
_MORE_KILLABLE: Final = 200


def main(parent: int) -> None:
    """Be a worker of the process `parent`, until it or the channel ends."""
    if not die_with_parent(parent):
        return
    inside.close_inherited(_CRASH)
    for fd in (_SOCKET, _PAGE, _CRASH):
        os.set_inheritable(fd, False)
    _show_itself()
    inside.WORKER = True
    # Ctrl-C reaches the terminal's whole group: what ends is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Held open without being needed: what closes it is the end of the process.
    faulthandler.enable(_CRASH)
    worker = _Child(End(_socket.socket(fileno=_SOCKET)), Page(_PAGE))
    with contextlib.suppress(BrokenPipeError):  # the parent has let go
        if worker.get_ready():
            worker.serve()


def _show_itself() -> None:
    """Be known in lists of processes, and be what the kernel ends before the parent when memory runs out."""
    with contextlib.suppress(OSError, ValueError):
        Path("/proc/self/comm").write_bytes(_NAME)
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(int(score.read_text()) + _MORE_KILLABLE, 1000)))


class _Child:
    def __init__(self, end: End, page: Page) -> None:
        self._end, self._page = end, page
        # What a placed function forks has its arguments.
        os.register_at_fork(before=end.incoming.share)
        start = end.receive()
        if start is None:
            raise BrokenPipeError
        self._warm_up, sys.argv[:], *main = pickle.loads(start.text)
        self._runner = Runner(main, lambda: page.cancelled)
        sys.stderr = _LastLine(sys.stderr, page)

    def get_ready(self) -> bool:
        """Run the warm-up, and tell how that went. False = badly."""
        try:
            if self._warm_up:
                self._runner.function(self._warm_up)()
        except BaseException as error:
            self._end.send(ERROR, 0, 0, error_parcel(error))
            return False
        # What is there now stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        self._end.send(READY, 0, 0, pack(None))
        return True

    def serve(self) -> None:
        """Answer calls until the parent hangs up."""
        while (message := self._end.receive()) is not None:
            call_id, due_ns, names_main = message.call_id, message.ns, message.names_main
            self._page.begun = call_id
            # Nothing of a call lives on in this frame.
            parts = [message.text, message.buffers]
            del message
            from_ns = time.monotonic_ns()
            kind, parcel = self._runner.outcome(call_id, due_ns, parts, names_main=names_main)
            self._answer(kind, call_id, parcel, time.monotonic_ns() - from_ns)
            del parcel

    def _answer(self, kind: int, call_id: int, parcel: Parcel, ran_ns: int) -> None:
        try:
            self._end.send(kind, call_id, ran_ns, parcel)
        except BrokenPipeError:
            raise
        except OSError as error:  # no memory file could be made
            self._end.send(ERROR, call_id, 0, error_parcel(error))


class _LastLine:
    """stderr of a worker: passed on as it is, and its last line kept where it survives a kill -9.

    A text stream around `stream`. Log handlers made after it was put in place write through it.
    """

    def __init__(self, stream: TextIO, page: Page) -> None:
        self._stream = stream
        self._page = page

    def write(self, text: str) -> int:
        """Write, and keep the last line of it that is not empty."""
        if line := text.strip().rpartition("\n")[2]:
            self._page.last_line = line
        return self._stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
