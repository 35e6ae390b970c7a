"""The process that speaks to Ray for a service: Ray's driver, and nothing else.

Why a process of its own: connecting brings some twenty threads, a SIGTERM handler and 100 MB into the process that
does it, cannot be done under gevent's monkey patch, does not survive a fork, and ends the process when the cluster's
head is gone for a minute. Here all of that meets the bridge: its calls fail by name, and the next call starts another.

It does as its parent says (`wire.FrameKind`), keeps no queue and decides nothing. It ends with its wire, so with its
parent.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import queue
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from greenlane.errors import PlacementError
from greenlane.placement.cluster.actor import Actor
from greenlane.placement.cluster.options import ClusterOptions
from greenlane.placement.cluster.wire import Frame, FrameKind, Wire
from greenlane.placement.processes import inside
from greenlane.placement.processes.answers import error_parcel

__all__ = ["main"]

#: The descriptor that it begins with.
_WIRE_FD: Final = 3
#: How often it is looked whether the parent lives; it tells of its end itself, by the wire, if anybody reads that.
_LOOK_S: Final = 1.0
#: What leaving the cluster may take then.
_LEAVE_S: Final = 10.0
# The kernel keeps 15 bytes.
_NAME: Final = b"greenlane-ray"
#: The last line of a traceback.
_EXCEPTION: Final = re.compile(r"[\w.]*(Error|Exception): ")


def main(parent: int) -> None:
    """Be the bridge of the process `parent`."""
    threading.Thread(target=_outlive_shortly, args=(parent,), name="parent", daemon=True).start()
    inside.close_inherited(_WIRE_FD)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_bytes(_NAME)
    # Ctrl-C reaches the terminal's whole group: what ends is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire = Wire(_WIRE_FD)
    begin = wire.receive()
    if begin is None:
        return
    options, main_key, main_value = pickle.loads(begin.text)
    try:
        bridge = _Bridge(wire, options, main_key, main_value)
    except BaseException as error:
        wire.send(Frame(FrameKind.REFUSED, text=error_parcel(error).pickle))
        return
    bridge.serve()


def _outlive_shortly(parent: int) -> None:
    """End this process some seconds after its parent, whatever it is doing then.

    Not at once, as the kernel could: a Ray of our own, if it is not shut down, leaves processes behind.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    time.sleep(_LEAVE_S)
    os._exit(0)


class _Bridge:
    def __init__(self, wire: Wire, options: ClusterOptions, main_key: str, main_value: str) -> None:
        import ray

        self._ray = ray
        self._wire = wire
        local = {"include_dashboard": False} if options.address == "local" else {}
        # What workers print goes to this process's output, which is the service's stderr.
        ray.init(
            address=options.address,
            runtime_env=dict(options.runtime_env) if options.runtime_env else None,
            configure_logging=False,
            **local,
        )
        # Never again: what a call has done is not known when it did not answer.
        self._actor = ray.remote(
            num_cpus=options.num_cpus, max_restarts=0, max_task_retries=0, concurrency_groups={"told": 1}
        )(Actor)
        main = {main_key: main_value} if main_key else {}
        node = "" if options.runtime_env else ray.get_runtime_context().get_node_id()
        path = [entry or os.getcwd() for entry in sys.path]
        self._program = (main, options.payload_max_bytes, path, node)
        self._workers: dict[int, Any] = {}
        self._answers: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._say(Frame(FrameKind.CONNECTED))
        threading.Thread(target=self._send, name="answers", daemon=True).start()

    def serve(self) -> None:
        """Do as the parent says, until it has gone."""
        while frame := self._wire.receive():
            try:
                self._do(frame)
            except Exception as error:
                self._could_not(frame, error)
            del frame
        # Ray's own way out: it tells the cluster, which ends this job's workers.
        self._ray.shutdown()

    def _do(self, frame: Frame) -> None:
        if frame.kind == FrameKind.START:
            worker = self._workers[frame.worker] = self._actor.remote(*self._program)
            self._on_end(worker.hello.remote(), functools.partial(self._greeted, frame.worker))
        elif frame.kind == FrameKind.STOP:
            worker = self._workers.pop(frame.worker, None)
            if worker is not None:
                self._ray.kill(worker)
        elif frame.kind == FrameKind.CALL:
            buffers = [pickle.PickleBuffer(buffer) for buffer in frame.buffers]
            run = self._workers[frame.worker].run.remote(frame.call, frame.number, bytes(frame.text), *buffers)
            self._on_end(run, functools.partial(self._answered, frame.worker, frame.call))
        elif frame.kind == FrameKind.CANCEL:
            worker = self._workers.get(frame.worker)
            if worker is not None:
                worker.cancel.options(concurrency_group="told").remote(frame.call)

    def _could_not(self, frame: Frame, error: Exception) -> None:
        """An order of the parent has failed here: the store has no room, the worker is gone."""
        if frame.kind == FrameKind.CALL:
            self._say(Frame(FrameKind.ERROR, frame.worker, frame.call, text=error_parcel(_refused(error)).pickle))
        elif frame.kind == FrameKind.START:
            self._say(Frame(FrameKind.LOST, frame.worker, text=_reason(error).encode()))

    def _greeted(self, number: int, pid: Any, error: BaseException | None) -> None:
        if error is None:
            self._say(Frame(FrameKind.READY, number, number=pid))
        else:
            self._lost(number, error)

    def _answered(self, number: int, call: int, outcome: Any, error: BaseException | None) -> None:
        if error is None:
            well, text, buffers = outcome
            self._say(Frame(FrameKind.RESULT if well else FrameKind.ERROR, number, call, text=text, buffers=buffers))
        elif isinstance(error, self._ray.exceptions.RayTaskError):
            # Its arguments could not be read there, its answer not be sent: the worker itself is well.
            self._say(Frame(FrameKind.ERROR, number, call, text=error_parcel(_refused(error)).pickle))
        else:
            self._lost(number, error)

    def _lost(self, number: int, error: BaseException) -> None:
        self._say(Frame(FrameKind.LOST, number, text=_reason(error).encode()))

    def _on_end(self, ref: Any, told: Any) -> None:
        """Call `told(result, error)` when this has ended, on a thread of Ray's."""

        def ended(future: Any) -> None:
            error = future.exception()
            told(None if error is not None else future.result(), error)

        ref.future().add_done_callback(ended)

    def _say(self, frame: Frame) -> None:
        self._answers.put(frame)

    def _send(self) -> None:
        while True:
            try:
                self._wire.send(self._answers.get())
            except OSError:
                return


def _reason(error: BaseException) -> str:
    """Say in one line why a worker is gone: the line of Ray's that speaks of an end, or of a traceback the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and _EXCEPTION.match(lines[-1]):
        return lines[-1]
    told = next((line for line in lines if "died" in line.lower() or "exit" in line.lower()), "".join(lines[:1]))
    return f"{type(error).__name__}: {told}"


def _refused(error: BaseException) -> PlacementError:
    return PlacementError(
        "send a call to the cluster", name="Ray", value=_reason(error), rule="that it takes arguments and answer",
        hint="send less at once, or give Ray a larger object store",
    )  # fmt: skip
