"""A worker process: waits for calls, runs them one after the other, answers each.

It ends when its parent does (the kernel kills it), when the parent closes its channel, or when it dies of a call.
"""

from __future__ import annotations

import contextlib
import contextvars
import faulthandler
import gc
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

from greenlane import deadline
from greenlane._native import Channel, Segment, die_with_parent
from greenlane.errors import Cancelled, DeadlineExceeded
from greenlane.placement.arena import inside
from greenlane.placement.arena.answers import error_parcel, result_parcel
from greenlane.placement.arena.names import found
from greenlane.placement.arena.parcel import Parcel, pack, unpack_call
from greenlane.placement.arena.protocol import (
    BEGUN,
    CANCEL,
    CHANNEL_FD,
    ERROR,
    FILES_FD,
    READY,
    RESULT,
    RESULT_WORDS,
    START,
    Start,
    ends,
    write_last_line,
)

__all__ = ["main"]

# Our frames between the loop and a function: left out of what its caller sees.
_OUR_FRAMES: Final = 1
# The kernel keeps 15 bytes.
_NAME: Final = b"greenlane-arena"
# How long a worker that has answered looks for the next call before it sleeps, if the last one came within that time.
_SPIN_US: Final = 50
# Of 1000, added to the parent's oom_score_adj: as if the worker used a fifth of the memory more. Arbitrary.
_MORE_KILLABLE: Final = 200


def main(parent: int) -> None:
    """Be a worker of the process `parent`, until it or the channel ends."""
    if not die_with_parent(parent):
        return
    inside.close_inherited(FILES_FD)
    _show_itself()
    inside.WORKER = True
    # Ctrl-C reaches the terminal's whole group: what ends is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = _Child(Channel(CHANNEL_FD), Channel(FILES_FD))
    with contextlib.suppress(BrokenPipeError):  # the parent has let go
        if worker.get_ready():
            worker.serve()


def _show_itself() -> None:
    """Be known in lists of processes, and be what the kernel ends before the parent when memory runs out."""
    with contextlib.suppress(OSError, ValueError):
        Path("/proc/self/comm").write_bytes(_NAME)
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(int(score.read_text()) + _MORE_KILLABLE, 1000)))


class _CallHere:
    """The call that runs: what `greenlane.checkpoint()` asks."""

    def __init__(self, control: Segment) -> None:
        self._control = control
        self.call_id = START
        self.deadline_ns = 0

    def check(self) -> None:
        """Raise if the caller has left."""
        # The parent cancels what is late, too: read first, so that the clock tells why.
        cancelled = self._control.load(CANCEL) == self.call_id
        if self.deadline_ns and time.monotonic_ns() >= self.deadline_ns:
            raise DeadlineExceeded()
        if cancelled:
            raise Cancelled()


class _Child:
    def __init__(self, channel: Channel, files: Channel) -> None:
        message = _first(channel)
        self._start: Start = pickle.loads(message)
        sys.argv[:] = self._start.argv
        self._control = _segment(files, writable=True)
        arguments = _segment(files, writable=self._start.writable)
        results = _segment(files, writable=True)
        faulthandler.enable(_descriptor(files))
        shared = _segment(files, writable=False)
        self._outbox, self._inbox = ends(results, arguments, self._control, RESULT_WORDS, channel, files, sees=shared)
        self._running = _CallHere(self._control)
        self._main_known = False
        sys.stderr = _LastLine(sys.stderr, self._control)

    def get_ready(self) -> bool:
        """Run the warm-up, and tell how that went. False = badly."""
        try:
            if self._start.warm_up:
                self._function(self._start.warm_up)()
        except BaseException as error:
            self._answer(ERROR, START, error_parcel(error))
            return False
        # What is there now stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        self._answer(READY, START, pack(None))
        return True

    def serve(self) -> None:
        """Answer calls until the channel is closed."""
        deadline.CURRENT.set(self._running)
        wait, begun, running, now_ns = self._inbox.wait, self._control.store, self._running, time.monotonic_ns
        while (letter := wait(_SPIN_US)) is not False:
            if letter is None:
                continue  # A signal came; its handler has run.
            _, names_main, call_id, due_ns, text, buffers = letter
            running.call_id = call_id
            running.deadline_ns = due_ns
            begun(BEGUN, call_id)
            # Nothing of a call lives on in this frame.
            parts = [text, buffers]
            del letter, text, buffers
            from_ns = now_ns()
            kind, parcel = self._outcome(parts, names_main)
            if not self._answer(kind, call_id, parcel, now_ns() - from_ns):
                return  # The parent has let go.
            del parcel

    def _outcome(self, parts: list[Any], names_main: bool) -> tuple[int, Parcel]:
        name = "?"
        try:
            if names_main:
                self._know_main()
            fn, args, kwargs = unpack_call(*parts)
            parts[1].clear()
            parts.clear()
            if type(fn) is str:
                name, fn = fn, self._function(fn)
            result = contextvars.copy_context().run(fn, *args, **kwargs)
            return RESULT, result_parcel(result, name, self._start.most_bytes)
        except BaseException as error:
            return ERROR, error_parcel(_without_ours(error))

    def _answer(self, kind: int, call_id: int, parcel: Parcel, ran_ns: int = 0) -> bool:
        """Send an answer; False = nobody is there. It may lie in an argument's block, which is left first."""
        send = self._outbox.send
        try:
            return send(kind, call_id, ran_ns, parcel.pickle, parcel.buffers, clear=True)
        except OSError as error:  # no memory file could be made
            parcel = error_parcel(error)
            return send(ERROR, call_id, 0, parcel.pickle, parcel.buffers)

    def _function(self, name: str) -> Callable[..., Any]:
        if name.startswith("__main__:"):
            self._know_main()
        return found(name)

    def _know_main(self) -> None:
        """Import the program's main module, under the name that keeps its `if __name__ == "__main__"` from running."""
        if not self._main_known and self._start.main_key:
            self._main_known = True
            from multiprocessing import spawn  # 20 ms that most programs can do without

            spawn.prepare({self._start.main_key: self._start.main_value})


class _LastLine:
    """stderr of a worker: passed on as it is, and its last line kept where it survives a kill -9.

    A text stream around `stream`. Log handlers made after it was put in place write through it.
    """

    def __init__(self, stream: TextIO, control: Segment) -> None:
        self._stream = stream
        self._control = control

    def write(self, text: str) -> int:
        """Write, and keep the last line of it that is not empty."""
        if line := text.strip().rpartition("\n")[2]:
            write_last_line(self._control, line.encode(errors="replace"))
        return self._stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _without_ours(error: BaseException) -> BaseException:
    traceback = error.__traceback__
    for _ in range(_OUR_FRAMES):
        if traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
    return error.with_traceback(traceback)


def _first(channel: Channel) -> bytes:
    """Wait for the first message; empty = there will be none."""
    while (message := channel.wait()) is None:
        pass  # A signal came; its handler has run.
    return message


def _descriptor(files: Channel) -> int:
    fd = files.receive_fd()
    assert fd is not None, "a worker's memory files are sent before its first message"
    return fd


def _segment(files: Channel, *, writable: bool) -> Segment:
    fd = _descriptor(files)
    try:
        return Segment(fd, writable=writable)
    finally:
        os.close(fd)
