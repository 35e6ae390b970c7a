"""Clocks of requests that each have a thread: the WSGI worker's."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any, Final

from greenlane import phase
from greenlane.probes.routes import shape
from greenlane.threads import unpatched
from greenlane_serve.worker.clocks import IDLE_S, LOOK_S, Blocks, Lateness, SampledRequest, Tally

__all__ = ["ThreadClocks", "stands_in_call"]

# A thread that waits for the GIL, a permit or a lock stands in this system call.
_FUTEX: Final = {"x86_64": b"202", "aarch64": b"98"}.get(os.uname().machine)


class _Here(threading.local):
    """Of one thread: its CPU when its last request had ended, and the route of its present one."""

    cpu_ns = 0
    route = ""


class _Names:
    """Hears which route the framework has resolved."""

    def __init__(self, here: _Here) -> None:
        self._here = here

    def name(self, route: str, /) -> None:
        self._here.route = route


class ThreadClocks:
    """Counts requests: `begin` and `end` are gunicorn's hooks around each, on its thread.

    Cost: some 2 us a request, and 1 us a blocking call of all while one is sampled.
    """

    def __init__(self, tally: Tally, lateness: Lateness) -> None:
        self._tally = tally
        self._lateness = lateness
        self._here = _Here()
        self._blocks = Blocks()
        self._asleep = False
        self._wakes = unpatched.allocate_lock()
        self._wakes.acquire()
        self._begun_s = 0.0
        phase.subscribe(_Names(self._here))
        unpatched.start_new_thread(self._look_on, ())

    def begin(self) -> None:
        """Note that this thread begins a request."""
        if self._tally.picks():
            self._blocks.begin(SampledRequest())
            self._begun_s = time.monotonic()
            if self._asleep:
                self._asleep = False
                self._wakes.release()

    def end(self, method: str, path: str) -> None:
        """Note that it has ended it. Its CPU is that of the thread since the one before: reading and writing too."""
        here = self._here
        now_ns = time.thread_time_ns()
        cpu_ns, here.cpu_ns = now_ns - here.cpu_ns, now_ns
        route, here.route = here.route or shape(method, path), ""
        self._tally.ended(route, cpu_ns, self._blocks.end())

    def _look_on(self) -> None:
        """Wake up now and then while requests are sampled: how late that is, and what probes do not see."""
        looked_s = time.monotonic()
        while True:
            if time.monotonic() - self._begun_s > IDLE_S:
                self._asleep = True
                self._wakes.acquire()
                looked_s = time.monotonic()
            pause_s = random.uniform(0.5, 1.5) * LOOK_S
            due_s = time.monotonic() + pause_s
            unpatched.sleep(pause_s)
            now_s = time.monotonic()
            self._lateness.took(round((now_s - due_s) * 1e9))
            self._look(now_s - looked_s)
            looked_s = now_s

    def _look(self, span_s: float) -> None:
        """A call of C code blocks that no probe knows: the kernel says so. One thread stands for all."""
        samples = list(self._blocks.of.values())
        if samples:
            sample = random.choice(samples)
            if not sample.rests and stands_in_call(sample.native_id):
                sample.blocked_ns += round(span_s * 1e9) * len(samples)


def stands_in_call(native_id: int) -> bool:
    """Whether a thread stands in a system call other than a wait for other threads. About 10 us."""
    if _FUTEX is None:
        return False
    try:
        fd = os.open(f"/proc/self/task/{native_id}/syscall", os.O_RDONLY)
        try:
            call: Any = os.read(fd, 32).split()[0]
        finally:
            os.close(fd)
    except (OSError, IndexError):
        return False
    return call not in (_FUTEX, b"running", b"-1")
