"""Waiting for a call in a greenlet: the hub goes on, and an async watcher brings the greenlet back.

A native thread wakes the watcher, and must not do so after it has been closed: a lock prevents that.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from greenlane.placement.call import Call
from greenlane.placement.executor import Executor, hand
from greenlane.threads.unpatched import allocate_lock

__all__ = ["turn", "wait"]


def wait(executor: Executor, call: Call, hub: Any) -> None:
    """Submit a call and wait until it has ended. Killing the greenlet cancels it; so does a `gevent.Timeout`."""
    waker = Waker(hub)
    timer = None
    try:
        call.add_done_callback(waker.wake)
        hand(executor, call)
        if call.deadline_ns:
            timer = hub.loop.timer(max(call.deadline_ns - time.monotonic_ns(), 0) / 1e9)
            timer.start(call.expire)
        waker.wait()
    except BaseException:
        executor.cancel(call)
        raise
    finally:
        waker.close()
        if timer is not None:
            timer.stop()
            timer.close()


def turn() -> None:
    """Let the hub turn once: what else is ready runs first."""
    sys.modules["gevent"].sleep(0)


class Waker:
    """Brings one greenlet back, from any thread, once."""

    def __init__(self, hub: Any) -> None:
        self._waiter = sys.modules["gevent.hub"].Waiter(hub)
        self._watcher = hub.loop.async_()
        self._open = True
        self._lock = allocate_lock()
        self._watcher.start(self._waiter.switch, None)

    def wake(self, _: Call) -> None:
        """Bring it back, from any thread, unless it is closed."""
        with self._lock:
            if self._open:
                self._watcher.send()

    def wait(self) -> None:
        """Let the hub go on until then. The recording's probe knows it by its name."""
        self._waiter.get()

    def close(self) -> None:
        """Give the watcher back; it wakes nothing afterwards."""
        with self._lock:
            self._open = False
        self._watcher.stop()
        self._watcher.close()
