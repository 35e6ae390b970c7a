"""The process that speaks to Ray for a service: Ray's driver, and nothing else.

Why a process of its own: connecting brings some twenty threads, a SIGTERM handler and 100 MB into the process that
does it, cannot be done under gevent's monkey patch, does not survive a fork, and ends the process when the cluster's
head is gone for a minute. Here all of that meets the bridge: its calls fail by name, and the next call starts another.

Its parent sends it sockets and pages of workers (`processes.messages`); each gets a thread, which has at most one
actor and one call. It keeps no queue and decides nothing. It ends with its parent's end of the socket.
"""

from __future__ import annotations

import _socket
import contextlib
import functools
import os
import pickle
import re
import signal
import struct
import threading
import time
from pathlib import Path
from typing import Any, Final

from greenlane.errors import PlacementError
from greenlane.placement.cluster.actor import Actor
from greenlane.placement.cluster.options import ClusterOptions
from greenlane.placement.processes import inside
from greenlane.placement.processes.answers import error_parcel
from greenlane.placement.processes.messages import ERROR, LOST, READY, End, Message, Page
from greenlane.placement.processes.parcel import Parcel, pack
from greenlane.placement.processes.worker import readable

__all__ = ["main"]

#: The descriptor that it begins with.
_FD: Final = 3
#: How often it is looked whether the parent lives; it tells of its end itself, by the socket, if anybody reads that.
_LOOK_S: Final = 1.0
#: What leaving the cluster may take then.
_LEAVE_S: Final = 10.0
#: How often it is looked whether a running call's caller has left.
_LEFT_S: Final = 0.05
# The kernel keeps 15 bytes.
_NAME: Final = b"greenlane-ray"
#: The last line of a traceback.
_EXCEPTION: Final = re.compile(r"[\w.]*(Error|Exception): ")


def main(parent: int) -> None:
    """Be the bridge of the process `parent`."""
    threading.Thread(target=_outlive_shortly, args=(parent,), name="parent", daemon=True).start()
    inside.close_inherited(_FD)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_bytes(_NAME)
    # Ctrl-C reaches the terminal's whole group: what ends is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    socket = _socket.socket(fileno=_FD)
    begin = socket.recv(1 << 20)
    if not begin:
        return
    cluster: _Cluster | None = None
    problem: Parcel | None = None
    options, *program = pickle.loads(begin)
    try:
        cluster = _Cluster(options, *program)
    except BaseException as error:
        problem = error_parcel(_not_connected(options, error))
    while True:
        data, rights, _, _ = socket.recvmsg(16, _socket.CMSG_SPACE(8), _socket.MSG_CMSG_CLOEXEC)
        if not data:
            break
        end, page = struct.unpack("=2i", rights[0][2])
        if cluster is None:
            assert problem is not None
            End(_socket.socket(fileno=end)).send(ERROR, 0, 0, problem)
            break
        worker = _Worker(cluster, End(_socket.socket(fileno=end)), Page(page))
        os.close(page)
        threading.Thread(target=worker.serve, daemon=True).start()
    if cluster is not None:
        # Ray's own way out: it tells the cluster, which ends this job's workers.
        cluster.ray.shutdown()


def _outlive_shortly(parent: int) -> None:
    """End this process some seconds after its parent, whatever it is doing then.

    Not at once, as the kernel could: a Ray of our own, if it is not shut down, leaves processes behind.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    time.sleep(_LEAVE_S)
    os._exit(0)


class _Cluster:
    """The connection."""

    def __init__(self, options: ClusterOptions, path: list[str], *main: str) -> None:
        import ray

        self.ray = ray
        self.options = options
        local = {"include_dashboard": False} if options.address == "local" else {}
        # What workers print goes to this process's output, which is the service's stderr.
        ray.init(address=options.address, configure_logging=False, **local)
        # Never again: what a call has done is not known when it did not answer.
        actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, concurrency_groups={"told": 1})(Actor)
        #: Starts an actor.
        self.actor = functools.partial(actor.remote, path, main, ray.get_runtime_context().get_node_id())


class _Worker:
    def __init__(self, cluster: _Cluster, end: End, page: Page) -> None:
        self._cluster = cluster
        self._ray = cluster.ray
        self._end = end
        self._page = page
        self._actor: Any = None
        self._pid = 0

    def serve(self) -> None:
        """Answer calls until the parent hangs up."""
        try:
            with contextlib.suppress(OSError):
                self._end.send(READY, 0, 0, pack(None))
                while True:
                    while self._actor and not readable(self._end.fileno(), self._cluster.options.idle_s):
                        self._drop()
                    message = self._end.receive()
                    if message is None:
                        return
                    kind, parcel = self._outcome(message)
                    call_id = message.call_id
                    del message
                    self._end.send(kind, call_id, 0, parcel)
                    del parcel
        finally:
            self._drop()
            self._end.close()

    def _outcome(self, message: Message) -> tuple[int, Parcel]:
        exceptions = self._ray.exceptions
        self._page.begun = message.call_id
        try:
            self._start()
            kind, text, buffers = self._answer(message)
        except exceptions.RayTaskError as error:
            # Its arguments could not be read there, its answer not be sent: the worker itself is well.
            return ERROR, error_parcel(_refusal(error))
        except exceptions.RayError as error:
            pid = self._pid
            self._drop()
            return LOST, pack((pid, self._why(error)))
        except Exception as error:  # the store has no room
            return ERROR, error_parcel(_refusal(error))
        return kind, Parcel(text, [memoryview(buffer).cast("B") for buffer in buffers])

    def _start(self) -> None:
        """Start an actor unless there is one."""
        if self._actor is None:
            self._actor = self._cluster.actor()
            self._pid = self._ray.get(self._actor.hello.remote(), timeout=self._cluster.options.start_timeout_s)
            self._page.actor = self._pid

    def _answer(self, message: Message) -> Any:
        """Run the call on the actor, which hears meanwhile whether the caller has left."""
        left_ns = max(message.ns - time.monotonic_ns(), 1) if message.ns else 0
        buffers = [pickle.PickleBuffer(buffer) for buffer in message.buffers]
        answer = self._actor.run.remote(message.call_id, left_ns, bytes(message.text), *buffers)
        told = False
        while not self._ray.wait([answer], timeout=_LEFT_S)[0]:
            if readable(self._end.fileno(), 0):
                raise BrokenPipeError  # The parent has hung up.
            if self._page.cancelled == message.call_id and not told:
                told = True
                self._actor.cancel.options(concurrency_group="told").remote(message.call_id)
        return self._ray.get(answer)

    def _drop(self) -> None:
        """Give the actor back to the cluster."""
        actor, self._actor = self._actor, None
        self._pid = self._page.actor = 0
        if actor is not None:
            self._ray.kill(actor)

    def _why(self, error: BaseException) -> str:
        if isinstance(error, self._ray.exceptions.GetTimeoutError):
            options = self._cluster.options
            return f"it did not come within {options.start_timeout_s:g} s: no room on {options.address!r}"
        return _reason(error)


def _reason(error: BaseException) -> str:
    """Say in one line why a worker is gone: the line of Ray's that speaks of an end, or of a traceback the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and _EXCEPTION.match(lines[-1]):
        return lines[-1]
    told = next((line for line in lines if "died" in line.lower() or "exit" in line.lower()), "".join(lines[:1]))
    return f"{type(error).__name__}: {told}"


def _refusal(error: BaseException) -> PlacementError:
    return PlacementError(
        "send a call to the cluster", name="Ray", value=_reason(error), rule="that it takes arguments and answer",
        hint="send less at once, or give Ray a larger object store",
    )  # fmt: skip


def _not_connected(options: ClusterOptions, cause: BaseException) -> PlacementError:
    error = PlacementError(
        "connect to the cluster", name="cluster_address", value=options.address,
        rule=f"a Ray that answers ({type(cause).__name__}: {cause})", hint="look whether it runs: ray status",
    )  # fmt: skip
    error.__cause__ = cause
    return error
