"""Waiting for the store's thread, waking it, from threads and from greenlets, and the clock of its leases.

A greenlet's wait lets its hub go on; a thread waits on a lock of the operating system. Which of the two a caller is, is
seen at the call: a program under `monkey.patch_all()` has both (gevent's thread pool, placed functions).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Any, Final

from greenlane.errors import StoreRefused
from greenlane.placement.on_hub import Waker
from greenlane.placement.scheduler import hub, in_hub
from greenlane.threads.unpatched import allocate_lock, get_native_id, sleep, threads_are_green

__all__ = ["NS", "GreenBell", "RealBell", "home", "now_ns", "waiter"]

NS: Final = 1_000_000_000


def now_ns() -> int:
    """Nanoseconds since the machine's start. Runs on while the machine sleeps, as it does for others who wait."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def waiter() -> RealBell | _Greenlet:
    """Give what the caller must wait with. Raises StoreRefused in gevent's hub itself."""
    found = home()
    if found is None:
        return RealBell()
    if in_hub(found):
        hint = "use Store.submit in a callback of the hub, or spawn a greenlet"
        rule = "one that may wait"
        raise StoreRefused("wait for the store", name="greenlet", value="gevent's hub", rule=rule, hint=hint)
    return _Greenlet(found)


def home() -> Any:
    """Give the hub of this thread, also that of a green program which has not waited yet; None = it has none."""
    found = hub()
    if found is None and threads_are_green() and get_native_id() == os.getpid():  # the process's first thread
        found = sys.modules["gevent"].get_hub()
    return found


class _Greenlet:
    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self._waker = Waker(hub)

    def wake(self, _: Any = None) -> None:
        self._waker.wake(None)  # type: ignore[arg-type]

    def wait(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            self._waker.wait()
            return
        timer = self._hub.loop.timer(max(timeout_s, 0.0))
        timer.start(self._waker.wake, None)
        try:
            self._waker.wait()
        finally:
            timer.stop()
            timer.close()

    def close(self) -> None:
        self._waker.close()


class RealBell:
    """Wakes the store's thread; one that waits for the store waits so, too."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def ring(self, _: Any = None) -> None:
        """Wake it, from any thread; once for any number of rings."""
        with contextlib.suppress(RuntimeError):  # it has been rung and not yet heard
            self._lock.release()

    wake = ring

    def wait(self, timeout_s: float | None) -> None:
        """Sleep until it rings, or for that long."""
        self._lock.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))

    def pause(self, seconds: float) -> None:
        """Sleep for that long, whatever rings."""
        sleep(seconds)

    def close(self) -> None:
        """Nothing is held."""


class GreenBell:
    """For a greenlet, rung from any thread."""

    def __init__(self, hub: Any) -> None:
        """`hub`: of the greenlet that waits. May be made on any thread."""
        from gevent.event import Event

        self._loop = hub.loop
        self._event = Event()
        self._rung = False

    def ring(self) -> None:
        """Wake it; see `RealBell`."""
        if not self._rung:
            self._rung = True
            self._loop.run_callback_threadsafe(self._event.set)

    def wait(self, timeout_s: float) -> None:
        """Sleep; see `RealBell`."""
        self._event.wait(timeout=max(timeout_s, 0.0))
        # A signal from here on counts again: at worst it wakes for nothing.
        self._rung = False
        self._event.clear()

    def pause(self, seconds: float) -> None:
        """Sleep; see `RealBell`."""
        sys.modules["gevent"].sleep(seconds)
