"""Services with a trouble that a recording may call by a wrong name: `troubles WHAT COUNT`.

Each knows what is true from outside: by its own clocks, or by the process that it waits for. It prints how long its
victims, jobs of the route `victim`, waited for what, as `TRUE` spells it; recorded by GREENLANE_RECORD_FOLDER.
"""

from __future__ import annotations

# ruff: noqa: E402 — a patched program patches first.
import sys

GREEN = {"driver", "rotation"}
if __name__ == "__main__" and sys.argv[1] in GREEN:
    import gevent.monkey

    gevent.monkey.patch_all()

import asyncio
import ctypes
import json
import os
import subprocess
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from tests.record.truths.answered import file, own_thread, recycled, released
from tests.record.truths.in_c import condition, futex, table
from tests.record.truths.served import front, occupied

from greenlane._native import Recorder
from greenlane.hosts.observed.import_trigger import OBSERVERS
from greenlane.probes.patching import Patches
from greenlane.record.jobs import job
from greenlane.wiring.recording import start_recording, stop_recording

MS = 1_000_000
#: What a recording says of its victims: "wait KIND", "io KIND" or "io all", "held FUNCTION" (there, the whole loop),
#: "gil ROUTE" (waited for that route's GIL), "latency ROUTE" (of that route); and counted: "unknown units",
#: "verdict NAME" (1 = the report's).
True_ = dict[str, float | tuple[float, float]]
_NANOSLEEP = {"x86_64": 35, "aarch64": 101}
_AWAY_NS, _OWN_NS = 3 * MS, 2 * MS


class _Span(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


def _burn(cpu_ns: int) -> int:
    """Use CPU; give how long it was off the core meanwhile."""
    from_ns, from_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
    while (used_ns := time.thread_time_ns() - from_cpu_ns) < cpu_ns:
        pass
    return time.monotonic_ns() - from_ns - used_ns


def unseen(count: int) -> True_:
    """Blocks in a system call that is made past the C library's functions, as some drivers and runtimes do."""
    call, number = ctypes.CDLL(None).syscall, _NANOSLEEP[os.uname().machine]
    off_ns = 0
    for _ in range(count):
        with job("victim"):
            off_ns += _burn(_OWN_NS)
            from_ns = time.monotonic_ns()
            call(ctypes.c_long(number), ctypes.byref(_Span(0, _AWAY_NS)), None)
            # It asks for no more: what comes on top is want of a core.
            off_ns += time.monotonic_ns() - from_ns - _AWAY_NS
            off_ns += _burn(_OWN_NS)
        time.sleep(0.001)
    return {"wait unseen": count * _AWAY_NS, "wait os": off_ns}


def core(count: int) -> True_:
    """Shares one core with two other processes: what it is off the core is want of a core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    others = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(2)]
    off_ns = 0
    try:
        for _ in range(count):
            with job("victim"):
                off_ns += _burn(5 * _OWN_NS)
    finally:
        for other in others:
            other.kill()
            other.wait()
    return {"wait os": off_ns, "wait unseen": 0}


_SLOW = """
import os, sys, time
asked, answered = map(int, sys.argv[1:])
while os.read(asked, 1) == b"x":
    time.sleep(0.0007)
    os.write(answered, b"x")
"""


class _Driver:
    """A driver that is not patched: a request, and a read that blocks the thread."""

    def __init__(self) -> None:
        (self._asked, self._to), (self._from, self._answered) = os.pipe(), os.pipe()
        ends = (self._asked, self._answered)
        command = [sys.executable, "-S", "-c", _SLOW, *map(str, ends)]
        closed = [(os.POSIX_SPAWN_CLOSE, self._to), (os.POSIX_SPAWN_CLOSE, self._from)]
        kept = [(os.POSIX_SPAWN_DUP2, end, end) for end in ends]
        self._pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=[*kept, *closed])
        for end in ends:
            os.close(end)

    def ask(self) -> int:
        """Give how long the read took, ns."""
        os.write(self._to, b"x")
        from_ns = time.monotonic_ns()
        os.read(self._from, 1)
        return time.monotonic_ns() - from_ns

    def close(self) -> None:
        """End it."""
        os.write(self._to, b".")
        os.waitpid(self._pid, 0)
        for end in (self._to, self._from):
            os.close(end)


def _often(driver: _Driver) -> int:
    return sum(driver.ask() for _ in range(6))


def _rarely(driver: _Driver) -> int:
    return sum(driver.ask() for _ in range(2))


def driver(count: int) -> True_:
    """Under gevent, a driver that blocks the loop for 0.8 ms a call, at two places."""
    import gevent

    slow = _Driver()
    often_ns = rarely_ns = 0

    def victim() -> None:
        nonlocal often_ns, rarely_ns
        with job("victim"):
            often_ns += _often(slow)
            rarely_ns += _rarely(slow)

    for _ in range(count):
        gevent.spawn(victim).get()
        gevent.sleep(0.001)
    slow.close()
    return {"held _often": often_ns, "held _rarely": rarely_ns}


def _elsewhere(s: float) -> int:
    """Give when the result was there."""
    time.sleep(s)
    return time.monotonic_ns()


def process_pool(count: int) -> True_:
    """Waits for what a process pool computes that has a place for it: no wait for a place."""

    async def play(pool: Executor) -> tuple[int, int]:
        loop, away_ns, late_ns = asyncio.get_running_loop(), 0, 0
        await loop.run_in_executor(pool, _elsewhere, 0.0)
        for _ in range(count):
            with job("victim"):
                from_ns = time.monotonic_ns()
                there_ns = await loop.run_in_executor(pool, _elsewhere, 0.008)
                away_ns += there_ns - from_ns
                late_ns += time.monotonic_ns() - there_ns
        return away_ns, late_ns

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        away_ns, late_ns = asyncio.run(play(pool))
    # On its way from the process to the task it may be either: the pipe's, or the loop's.
    return {"io future": (away_ns, away_ns + late_ns), "wait pool": 0}


def thread_pool(count: int) -> True_:
    """Three at a time on a pool of one thread: two of them wait for a place."""
    begun: dict[int, int] = {}

    def works(number: int) -> None:
        begun[number] = time.monotonic_ns()
        time.sleep(0.004)

    async def victim(number: int, pool: Executor) -> int:
        with job("victim"):
            from_ns = time.monotonic_ns()
            await asyncio.get_running_loop().run_in_executor(pool, works, number)
        return begun[number] - from_ns

    async def play(pool: Executor) -> int:
        waited_ns = 0
        for number in range(0, 3 * count, 3):
            tasks = [asyncio.create_task(victim(number + each, pool)) for each in range(3)]
            waited_ns += sum(await asyncio.gather(*tasks))
        return waited_ns

    with ThreadPoolExecutor(1) as pool:
        waited_ns = asyncio.run(play(pool))
    return {"wait pool": waited_ns, "io future": 0}


def rotation(count: int) -> True_:
    """Greenlets that live on while the recording's oldest files go, as those of kept-alive connections do."""
    import gevent

    def served(number: int) -> None:
        for _ in range(count):
            with job("victim"):
                gevent.sleep(0.0005 * (number % 3))

    def noise() -> None:
        for _ in range(400):
            gevent.sleep(0)

    living = [gevent.spawn(served, number) for number in range(30)]
    while not all(one.ready() for one in living):
        gevent.joinall([gevent.spawn(noise) for _ in range(20)])
    return {"unknown units": 0}


#: Each trouble, and what else it is recorded with.
TROUBLES: dict[str, dict[str, str]] = {
    "unseen": {},
    "core": {},
    "driver": {},
    "process_pool": {},
    "thread_pool": {},
    "rotation": {"GREENLANE_RECORD_MAX_MB": "1"},
    **{each.__name__: {} for each in (condition, futex, table, own_thread, recycled, file, released, front, occupied)},
}
#: Their jobs are requests.
_SERVED = (front.__name__, occupied.__name__)


def main() -> None:
    """Play `what`; prints what is true, and what the recording lost."""
    what, count = sys.argv[1], int(sys.argv[2])
    start_recording(None, *[Patches(OBSERVERS)] * (what in _SERVED))
    true = globals()[what](count)
    recorder = Recorder()
    recorder.flush()
    lost = recorder.stats()["lost"]
    stop_recording()
    print(json.dumps({"true_ns": true, "lost": lost}))


if __name__ == "__main__":
    main()
