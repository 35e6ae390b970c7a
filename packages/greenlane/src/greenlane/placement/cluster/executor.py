"""An `Executor` whose workers are threads of a bridge, each with a Ray actor of its own; see `bridge`.

Queue, dispatch, cancellation and what calls and results weigh are those of worker processes.
"""

from __future__ import annotations

import _socket  # gevent replaces what `socket` has of it
import contextlib
import dataclasses
import os
import pickle
import signal
import sys
from typing import Final

from greenlane.errors import WorkerDied
from greenlane.placement import interpreter
from greenlane.placement.cluster.options import ClusterOptions
from greenlane.placement.processes.executor import ProcessExecutor, ProcessStats
from greenlane.placement.processes.messages import LOST, End, Message, Page, send_fds
from greenlane.placement.processes.names import main_module
from greenlane.placement.processes.options import ProcessOptions
from greenlane.placement.processes.parcel import unpack
from greenlane.placement.processes.worker import Order, Worker, exit_status, readable
from greenlane.threads.unpatched import RLock

__all__ = ["RayExecutor"]

_MODULE: Final = "greenlane.placement.cluster.bridge"
_HINT: Final = "look at what Ray has said on stderr, and whether the cluster runs: ray status"
#: What a bridge may take to leave the cluster before it is killed.
_END_S: Final = 5.0
#: By so much its sockets may be closed before it has ended.
_ENDING_S: Final = 0.2


class RayExecutor(ProcessExecutor):
    """The bridge starts with the first call; a forked child has one of its own.

    A call takes about a millisecond and its network.
    """

    def __init__(self, options: ClusterOptions) -> None:
        """Make it; nothing is started."""
        self.cluster = options
        super().__init__(ProcessOptions(options.workers, options.queue, start_timeout_s=options.start_timeout_s))

    def _begin(self) -> None:
        super()._begin()
        self.bridge: _Bridge | None = None
        self._bridges = RLock()

    def start_worker(self) -> Worker:
        """See `ProcessExecutor`. The first one starts the bridge."""
        with self._bridges:
            if self.bridge is None or self.bridge.has_ended():
                self.bridge = _Bridge(self.cluster)
            return _RayWorker(self.bridge)

    def stats(self) -> ProcessStats:
        """See `Executor`: its workers are the actors that there are."""
        return dataclasses.replace(super().stats(), workers=len(self.worker_pids()))

    def worker_pids(self) -> list[int]:
        """Process ids of the actors that there are, each on its own machine."""
        return [worker.page.actor for worker in self.workers() if worker.page.actor]

    def settle(self, order: Order, message: Message) -> None:
        """See `ProcessExecutor`."""
        if message.kind != LOST:
            super().settle(order, message)
            return
        pid, reason = unpack(message.text, ())
        attempted = f"run {order.name} on the cluster" if pid else "start a worker on the cluster"
        hint = "look at it with `ray list actors`, and at Ray's logs"
        order.fail(WorkerDied(attempted, pid=pid, code=None, ended=f"is gone ({reason})", hint=hint))

    def close(self, seconds: float) -> None:
        """See `Executor`. What still runs then is ended with the bridge, its calls fail."""
        super().close(seconds)
        if self.bridge is not None:
            self.bridge.end()

    def forked(self) -> None:
        """See `ProcessExecutor`."""
        if self.bridge is not None:
            self.bridge.forget()
        super().forked()


class _RayWorker(Worker):
    where = "on the cluster"

    def __init__(self, bridge: _Bridge) -> None:
        end, socket = End.pair()
        shared, page = Page.make()
        with contextlib.closing(socket):
            try:
                bridge.connect(socket.fileno(), page)
            finally:
                os.close(page)
        super().__init__(end, shared, bridge.pid, bridge.pidfd)
        self._bridge = bridge

    def kill(self) -> None:
        """Let its thread of the bridge end, and the actor with it."""
        self.end.hang_up()

    def reap(self) -> tuple[int | None, str]:
        """See `Worker`: the bridge's, if that has ended."""
        return self._bridge.status() if self._bridge.has_ended(_ENDING_S) else None, ""

    def not_started(self, code: int | None, last_line: str, cause: BaseException | None) -> BaseException:
        """See `Worker`."""
        if cause is None:
            ended = f"has not connected to cluster_address={self._bridge.address!r}"
            return WorkerDied("start a worker on the cluster", pid=self.pid, code=code, ended=ended, hint=_HINT)
        return cause


class _Bridge:
    """The process that speaks to Ray."""

    def __init__(self, options: ClusterOptions) -> None:
        self._socket, its = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._code: int | None = None
        self.address = options.address
        with contextlib.closing(its):
            # Ray talks on stdout; the service's stdout is not for that.
            to_stderr = (os.POSIX_SPAWN_DUP2, 2, 1)
            self._socket.send(pickle.dumps((options, [entry or os.getcwd() for entry in sys.path], *main_module())))
            self.pid = interpreter.start(_MODULE, [its.fileno()], os.environ, [to_stderr])
        self.pidfd = os.pidfd_open(self.pid)
        self._reaping = RLock()

    def connect(self, *fds: int) -> None:
        """Give it a worker's socket and page. Raises OSError: it has ended."""
        send_fds(self._socket, fds)

    def has_ended(self, within_s: float = 0.0) -> bool:
        """Whether the process is gone, or goes within this time."""
        return self.pidfd < 0 or readable(self.pidfd, within_s)

    def status(self) -> int | None:
        """Wait for its end: gives its exit status; None = unknown."""
        with self._reaping:
            if self.pidfd >= 0:
                self._code = exit_status(self.pidfd)
                self.forget()
            return self._code

    def end(self) -> None:
        """Let it leave the cluster and end, after some seconds by force."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(_socket.SHUT_RDWR)
        if self.pidfd >= 0 and not readable(self.pidfd, _END_S):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        self.status()

    def forget(self) -> None:
        """Close descriptors."""
        self._socket.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.pidfd = -1
