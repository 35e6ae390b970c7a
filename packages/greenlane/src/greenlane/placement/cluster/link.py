"""The service's end of a bridge: its process, and two real threads, one that sends and one that receives."""

from __future__ import annotations

import _queue  # gevent replaces `queue`
import contextlib
import logging
import os
import pickle
import posix  # gevent replaces what `os` has of it
import select
import signal
from collections.abc import Callable
from typing import Any, Final

from greenlane.placement import interpreter
from greenlane.placement.cluster.options import ClusterOptions
from greenlane.placement.cluster.wire import Frame, FrameKind, pair
from greenlane.placement.processes.names import main_module
from greenlane.threads.fork_warning import mark_thread
from greenlane.threads.unpatched import allocate_lock, poll, start_new_thread

__all__ = ["Link"]

_MODULE: Final = "greenlane.placement.cluster.bridge"
#: What a bridge may take to leave the cluster before it is killed.
_END_S: Final = 3.0
_LOG: Final = logging.getLogger("greenlane")


class Link:
    """A bridge that is being started, runs, or has ended. Nothing blocks but `end`."""

    def __init__(
        self,
        options: ClusterOptions,
        heard: Callable[[Link, Frame], object],
        ended: Callable[[Link, int | None], object],
    ) -> None:
        """Start it.

        Args:
            options: which cluster, and what workers.
            heard: called with each frame of the bridge's, on the receiving thread.
            ended: called when the bridge has ended, with its exit status as `os.waitstatus_to_exitcode`; None =
                somebody else in this process has taken it. Nothing is heard afterwards.
        """
        self.pid = 0
        self._pidfd = -1
        self._patience_s = _END_S
        self._heard = heard
        self._ended = ended
        self._wire, self._other = pair()
        self._frames: Any = _queue.SimpleQueue()
        # Taken while the sending thread, and while anything of it, is there.
        self._sent = allocate_lock()
        self._gone = allocate_lock()
        self._gone.acquire()
        self.send(Frame(FrameKind.BEGIN, text=pickle.dumps((options, *main_module()))))
        start_new_thread(self._receive, ())

    def send(self, frame: Frame) -> None:
        """Send a frame when those before it are through."""
        self._frames.put(frame)

    def end(self, *, at_once: bool = False) -> None:
        """Let it leave the cluster and end, after some seconds by force, or by force at once. Blocks; idempotent."""
        if at_once:
            self._patience_s = 0.0
        self._wire.end()
        if self._gone.acquire(timeout=2 * _END_S):
            self._gone.release()

    def forked(self) -> None:
        """In the child of a fork: close what belongs to the parent."""
        self._wire.close()
        self._other.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _receive(self) -> None:
        mark_thread()
        code: int | None = None
        try:
            # Ray talks on stdout; the service's stdout is not for that.
            to_stderr = (os.POSIX_SPAWN_DUP2, 2, 1)
            self.pid = interpreter.start(_MODULE, [self._other.fileno()], os.environ, [to_stderr])
            self._other.close()
            self._pidfd = os.pidfd_open(self.pid)
            self._sent.acquire()
            start_new_thread(self._send, ())
            while (frame := self._wire.receive()) is not None:
                self._heard(self, frame)
                del frame
        except Exception:  # no process or descriptor could be made, or our bug
            _LOG.exception("keep the bridge to the cluster")
        finally:
            code = self._reaped()
            self._frames.put(None)
            self._sent.acquire(timeout=_END_S)
            self._wire.close()
            self._gone.release()
            self._ended(self, code)

    def _send(self) -> None:
        mark_thread()
        while (frame := self._frames.get()) is not None:
            with contextlib.suppress(OSError):  # it has ended: the other thread knows
                self._wire.send(frame)
            del frame
        self._sent.release()

    def _reaped(self) -> int | None:
        """Wait for the process to end, as it does once its wire has ended; give its status."""
        self._wire.end()
        self._other.close()
        if not self.pid:
            return None
        if self._pidfd >= 0:
            if not _ends_within(self._pidfd, self._patience_s):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            fd, self._pidfd = self._pidfd, -1
            os.close(fd)
        try:
            _, status = posix.waitpid(self.pid, 0)
        except ChildProcessError:
            return None
        return os.waitstatus_to_exitcode(status)


def _ends_within(pidfd: int, seconds: float) -> bool:
    waiting = poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
