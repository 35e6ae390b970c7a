"""A program of load and faults: `python -m tests.placement.processes.kills SECONDS`. Prints one JSON object of counts;
exits 1 with what went wrong.

Callers on threads, an asyncio loop and a gevent hub place calls of every size, with and without deadlines, and leave
some of them. Meanwhile workers are killed (-9) and stopped and continued at random, also while they start. Each call
must answer or fail by name, each answer must be its own (its number, a checksum of its content, the content), what is
held of earlier results must not change, and afterwards nothing may be left: no process, descriptor, mapping or thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import numpy as np
from tests.placement.processes import functions
from tests.placement.processes.running import LONGEST_S, descriptors, mappings

from greenlane.errors import DeadlineExceeded, Overloaded, WorkerDied
from greenlane.placement import Call, State, on_hub, on_loop, on_thread
from greenlane.placement.processes.executor import ProcessExecutor
from greenlane.placement.processes.options import ProcessOptions

SEED = "kills"
#: Of content, and how often: next to nothing, in the message, 1 MB, 12 MB.
BYTES = {8: 6, 30_000: 4, 1_000_000: 4, 12_000_000: 1}
#: How a caller behaves, and how often: it waits; it leaves soon; it has a deadline, for a call that asks; for one that
#: does not, and is killed for it.
WAYS = {"waits": 80, "leaves": 8, "deadline": 9, "deaf": 1}

_LEAST_ANSWERS, _LEAST_KILLS = 20, 2


class Kills:
    """Load and faults on one executor, until the time is over or something is wrong."""

    def __init__(self, executor: ProcessExecutor, seconds: float) -> None:
        self.executor = executor
        self.until = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        # What callers hold of earlier results, and what it must still be.
        self.held: list[tuple[Any, int]] = []
        self._lock = threading.Lock()

    def goes_on(self) -> bool:
        """Whether the time is not over; on a slow machine it ends when something has happened."""
        if time.monotonic() < self.until:
            return True
        happened = self.counts["answered"] >= _LEAST_ANSWERS and self.counts["kills"] >= _LEAST_KILLS
        return not happened and time.monotonic() < self.until + LONGEST_S

    def made(self, choice: random.Random) -> tuple[Call, int, Any, str]:
        """A call, what it must give, and how its caller behaves."""
        number = choice.randrange(1 << 30)
        length = choice.choices(list(BYTES), list(BYTES.values()))[0] // 8
        way = choice.choices(list(WAYS), list(WAYS.values()))[0]
        content = np.empty(length, "i8")
        content[...] = number
        function = functions.told_deaf if way == "deaf" else functions.told_and_echoed
        deadline_ns = 0
        if way in ("deadline", "deaf"):
            deadline_ns = time.monotonic_ns() + int(choice.uniform(0.1, 40) * 1e6)
        self.count("placed")
        return Call(function, (number, content), deadline_ns=deadline_ns), number, content, way

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def judge(self, call: Call, number: int, content: Any) -> None:
        """Count an ended call. A wrong answer, or an end that has no name, raises."""
        assert call.state not in (State.WAITING, State.RUNNING), "a call without an end"
        if call.state is State.CANCELLED:
            return self.count("left")
        try:
            told, echoed = call.result()
        except WorkerDied as error:
            assert error.signal == signal.SIGKILL, error
            return self.count("died")
        except DeadlineExceeded:
            return self.count("late")
        expected = zlib.crc32(content)
        assert told == (number, expected), "another call's result"
        assert zlib.crc32(echoed) == expected, "a result changed on its way"
        self.count("answered")
        return self.hold(number, echoed)

    def hold(self, number: int, echoed: Any) -> None:
        with self._lock:
            if number % 7 == 0:
                view = echoed[: 1 + number % 50]
                self.held = [*self.held[-5:], (view, zlib.crc32(view))]
            for view, checksum in self.held:
                assert zlib.crc32(view) == checksum, "a held result changed"

    # -- Callers

    def from_thread(self, name: str) -> None:
        choice = random.Random(f"{SEED} {name}")
        while self.goes_on():
            call, number, content, way = self.made(choice)
            try:
                if way == "waits":
                    on_thread.wait(self.executor, call)
                else:
                    self.awaited_on_thread(call, choice.uniform(0, 0.005) if way == "leaves" else 0)
            except Overloaded:
                self.count("refused")
                time.sleep(0.002)
            else:
                self.judge(call, number, content)

    def awaited_on_thread(self, call: Call, leaves_s: float) -> None:
        done = threading.Event()
        call.add_done_callback(lambda _: done.set())
        self.executor.submit(call)
        if leaves_s and not done.wait(leaves_s):
            self.executor.cancel(call)
        assert done.wait(LONGEST_S), "a call without an end"

    def from_loop(self, name: str) -> None:
        async def one(choice: random.Random) -> None:
            loop = asyncio.get_running_loop()
            while self.goes_on():
                call, number, content, way = self.made(choice)
                leaves_s = choice.uniform(0, 0.005) if way == "leaves" else LONGEST_S
                try:
                    async with asyncio.timeout(leaves_s):
                        await on_loop.wait(self.executor, call, loop)
                except TimeoutError:
                    assert way == "leaves", "a call without an end"
                except Overloaded:
                    self.count("refused")
                    await asyncio.sleep(0.002)
                    continue
                self.judge(call, number, content)

        async def several() -> None:
            await asyncio.gather(*(one(random.Random(f"{SEED} {name} {number}")) for number in range(4)))

        asyncio.run(several())

    def from_hub(self, name: str) -> None:
        hub = gevent.get_hub()

        def one(choice: random.Random) -> None:
            while self.goes_on():
                call, number, content, way = self.made(choice)
                leaves_s = choice.uniform(0, 0.005) if way == "leaves" else LONGEST_S
                try:
                    with gevent.Timeout(leaves_s):
                        on_hub.wait(self.executor, call, hub)
                except gevent.Timeout:
                    assert way == "leaves", "a call without an end"
                except Overloaded:
                    self.count("refused")
                    gevent.sleep(0.002)
                    continue
                self.judge(call, number, content)

        jobs = [gevent.spawn(one, random.Random(f"{SEED} {name} {number}")) for number in range(3)]
        try:
            gevent.joinall(jobs, raise_error=True)
        finally:
            gevent.killall(jobs)
            hub.destroy(destroy_loop=True)

    # -- Faults

    def kill(self) -> None:
        choice = random.Random(f"{SEED} kill")
        while self.goes_on():
            time.sleep(choice.uniform(0, 1.5))
            # Those that only start seldom: else none would ever be ready.
            ready = [worker.pid for worker in self.executor.workers() if worker.ready_s]
            if pids := workers() if choice.random() < 0.1 else ready:
                send(choice.choice(pids), signal.SIGKILL)
                self.count("kills")

    def stop(self) -> None:
        choice = random.Random(f"{SEED} stop")
        while self.goes_on():
            time.sleep(choice.uniform(0, 0.5))
            if pids := workers():
                pid = choice.choice(pids)
                send(pid, signal.SIGSTOP)
                time.sleep(choice.uniform(0, 0.2))
                send(pid, signal.SIGCONT)
                self.count("stops")

    # -- The end

    def recovers(self) -> None:
        """After the faults, calls are answered again."""
        until = time.monotonic() + LONGEST_S
        answered = 0
        while answered < 20:
            assert time.monotonic() < until, "no answers after the faults"
            call = Call(functions.same, (answered,))
            try:
                self.awaited_on_thread(call, 0)
                assert call.result() == answered
                answered += 1
            except (WorkerDied, Overloaded):
                answered = 0
                time.sleep(0.05)


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def workers() -> list[int]:
    """Processes that this one has started and that live, those included that are not ready."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == os.getpid() and fields[0] != "Z":
                    found.append(int(entry.name))
    return sorted(found)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def left(before: set[str], threads_before: int) -> str:
    """What is there that was not: "" = nothing. What ends by itself gets some time."""
    until = time.monotonic() + LONGEST_S
    while True:
        gc.collect()
        found = {
            "processes": workers(),
            "descriptors": sorted(set(descriptors().values()) - before),
            "mappings": mappings(),
            "threads": max(threads() - threads_before, 0),
        }
        if not any(found.values()) or time.monotonic() > until:
            return ", ".join(f"{name}: {what}" for name, what in found.items() if what)
        time.sleep(0.05)


def run(seconds: float) -> dict[str, int]:
    """All of it; raises AssertionError on the first thing that is wrong."""
    before, threads_before = set(descriptors().values()), threads()
    options = ProcessOptions(workers=2, queue=6, warm_up=functions.import_numpy, kill_after_s=0.2)
    executor = ProcessExecutor(options)
    kills = Kills(executor, seconds)
    problems: list[BaseException] = []

    def guarded(work: Callable[..., None], *args: object) -> None:
        try:
            work(*args)
        except BaseException as problem:
            problems.append(problem)
            kills.until = -LONGEST_S

    works = [(kills.from_thread, "a"), (kills.from_thread, "b"), (kills.from_loop, "c"), (kills.from_hub, "d")]
    running = [threading.Thread(target=guarded, args=work) for work in [*works, (kills.kill,), (kills.stop,)]]
    for thread in running:
        thread.start()
    end = time.monotonic() + seconds + 3 * LONGEST_S
    for thread in running:
        thread.join(max(end - time.monotonic(), 0.1))
    if hanging := [thread.name for thread in running if thread.is_alive()]:
        faulthandler.dump_traceback(all_threads=True)
        problems.append(AssertionError(f"callers hang: {hanging}"))
    if not problems:
        kills.recovers()
    stats = executor.stats()
    executor.close(5)
    if problems:
        raise problems[0]
    kills.held.clear()
    rest = left(before, threads_before)
    assert not rest, rest
    ends = sum(kills.counts[what] for what in ("answered", "died", "late", "left", "refused"))
    assert ends == kills.counts["placed"], f"{kills.counts}: {kills.counts['placed'] - ends} calls without an end"
    return {**kills.counts, "deaths": stats.deaths, "late_answers": stats.late}


def main() -> None:
    """Run and print."""
    faulthandler.enable()
    print(json.dumps(run(float(sys.argv[1]))))


if __name__ == "__main__":
    main()
