"""kill -9 at random: each call answers or fails by name, no result is wrong, nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import threading
import time
import zlib
from typing import Any

import numpy as np
import pytest

from greenlane.errors import Overloaded, WorkerDied
from greenlane.lanes.arena.executor import ArenaExecutor
from greenlane.lanes.arena.options import ArenaOptions
from greenlane.lanes.placed import Call, State
from tests.lanes.arena import functions
from tests.lanes.arena.running import LONGEST_S, descriptors, is_alive, mappings

SEED = "kills"


class Kills:
    """Load of every size from threads and a loop, while workers are killed at random."""

    def __init__(self, executor: ArenaExecutor, seconds: float) -> None:
        self.executor = executor
        self.until = time.monotonic() + seconds
        self.pids: set[int] = set()
        self.answered = self.died = self.cancelled = self.refused = self.kills = 0
        # What the callers hold of earlier results, and what it must still be.
        self.held: list[tuple[Any, int]] = []
        self._lock = threading.Lock()

    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    def judge(self, call: Call, number: int, content: Any) -> None:
        """Count an ended call; a wrong result or any other failure is an error of the test."""
        with self._lock:
            if call.state is State.CANCELLED:
                self.cancelled += 1
                return
            try:
                told, echoed = call.result()
            except WorkerDied as error:
                assert error.signal == signal.SIGKILL
                self.died += 1
                return
            expected = zlib.crc32(content)
            assert told == (number, expected), "another call's result"
            assert zlib.crc32(echoed) == expected, "a result changed on its way"
            self.answered += 1
            if number % 7 == 0:
                self.held = [*self.held[-5:], (echoed[: 1 + number % 50], zlib.crc32(echoed[: 1 + number % 50]))]
            for view, checksum in self.held:
                assert zlib.crc32(view) == checksum, "a held result changed"

    def placed(self, choice: random.Random) -> tuple[Call, int, Any] | None:
        number = choice.randrange(1 << 30)
        content = np.full(choice.choice([1, 100, 30_000, 300_000]), number, dtype="i8")
        call = Call(functions.told_and_echoed, (number, content))
        try:
            self.executor.submit(call)
        except Overloaded:
            with self._lock:
                self.refused += 1
            return None
        if choice.random() < 0.05:
            self.executor.cancel(call)
        return call, number, content

    def from_thread(self, name: str) -> None:
        choice = random.Random(f"{SEED} {name}")
        while self.goes_on():
            if placed := self.placed(choice):
                done = threading.Event()
                placed[0].add_done_callback(lambda _, done=done: done.set())  # type: ignore[misc]
                assert done.wait(LONGEST_S), "a call without an end"
                self.judge(*placed)
            else:
                time.sleep(0.001)

    def from_loop(self, name: str) -> None:
        def told(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
            with contextlib.suppress(RuntimeError):  # closed: the test has failed elsewhere
                loop.call_soon_threadsafe(done.set)

        async def one(choice: random.Random) -> None:
            loop = asyncio.get_running_loop()
            while self.goes_on():
                if placed := self.placed(choice):
                    done = asyncio.Event()
                    placed[0].add_done_callback(lambda _, done=done: told(loop, done))  # type: ignore[misc]
                    await asyncio.wait_for(done.wait(), LONGEST_S)
                    self.judge(*placed)
                else:
                    await asyncio.sleep(0.001)

        async def several() -> None:
            await asyncio.gather(*(one(random.Random(f"{SEED} {name} {number}")) for number in range(4)))

        asyncio.run(several())

    def kill(self) -> None:
        choice = random.Random(SEED)
        while self.goes_on():
            time.sleep(choice.uniform(0, 1))
            pids = self.executor.worker_pids()
            self.pids.update(pids)
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(choice.choice(pids), signal.SIGKILL)
                    self.kills += 1


def killed_for(seconds: float) -> Kills:
    """Run it in this process; fails unless nothing is left afterwards."""
    gc.collect()
    before, mapped = set(descriptors().values()), len(mappings())
    executor = ArenaExecutor(ArenaOptions(workers=2, arena_mb=8, queue=4, warm_up=functions.import_numpy))
    kills = Kills(executor, seconds)
    problems: list[BaseException] = []

    def guarded(work: Any, *args: Any) -> None:
        try:
            work(*args)
        except BaseException as problem:
            problems.append(problem)
            kills.until = 0

    works = [(kills.from_thread, "a"), (kills.from_thread, "b"), (kills.from_loop, "c"), (kills.kill,)]
    threads = [threading.Thread(target=guarded, args=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 2 * LONGEST_S)
    assert not any(thread.is_alive() for thread in threads), "a caller hangs"
    executor.close(5)
    assert not problems, problems
    kills.held.clear()
    gc.collect()
    assert not [pid for pid in kills.pids if is_alive(pid)]
    assert set(descriptors().values()) <= before
    assert len(mappings()) == mapped
    return kills


@pytest.mark.slow
def test_five_seconds_of_kills() -> None:
    kills = killed_for(5)
    assert kills.kills >= 1
    assert kills.answered >= 20


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_minute_of_kills() -> None:
    kills = killed_for(60)
    assert kills.kills >= 50
    assert kills.answered >= 1000
    assert kills.died >= 1
