"""Waiting for a call on a thread that nobody else shares. Its own phase ends meanwhile: a permit is given back."""

from __future__ import annotations

import time

from greenlane import phase
from greenlane.placement.call import Call
from greenlane.placement.executor import Executor, hand
from greenlane.threads.unpatched import allocate_lock

__all__ = ["wait"]


def wait(executor: Executor, call: Call) -> None:
    """Submit a call and block until it has ended. An exception in this thread (Ctrl-C) cancels the call."""
    ended = allocate_lock()
    ended.acquire()
    try:
        call.add_done_callback(lambda _: ended.release())
        hand(executor, call)
        phase.leave(phase.Kind.FUTURE)
        try:
            _acquire(ended, call)
        finally:
            phase.enter()
    except BaseException:
        executor.cancel(call)
        raise


def _acquire(ended: object, call: Call) -> None:
    acquire = ended.acquire  # type: ignore[attr-defined] # a lock of `_thread`, whose type gevent replaces
    if call.deadline_ns:
        left_s = (call.deadline_ns - time.monotonic_ns()) / 1e9
        if acquire(timeout=min(max(left_s, 0), 1e6)):
            return
        call.expire()
    acquire()
