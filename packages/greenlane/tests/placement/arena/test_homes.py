"""Answers ring where the caller waits: on its loop, its hub, or the keeper's thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from tests.lanes.burners import together
from tests.placement.arena import functions
from tests.placement.arena.conftest import Make
from tests.placement.arena.running import run

from greenlane.placement import Call
from greenlane.placement.arena.executor import ArenaExecutor
from tests.fixtures import RunPython
from tests.where import IMPORT_PATH

# Each starts processes.
pytestmark = pytest.mark.slow

RUNNERS = pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
RunLoop = Callable[[Coroutine[Any, Any, Any]], Any]


async def awaited(executor: ArenaExecutor, threads: list[int], fn: Callable[..., Any], *args: object) -> Any:
    """A waiting shell in the small."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def done(_: Call) -> None:
        threads.append(threading.get_ident())
        loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))

    call = Call(fn, args)
    call.add_done_callback(done)
    executor.submit(call)
    await future
    return call.result()


@RUNNERS
def test_on_a_loop_answers_ring_on_its_own_thread(executor: ArenaExecutor, run_loop: RunLoop) -> None:
    run(executor, functions.pid)
    threads: list[int] = []

    async def main() -> list[Any]:
        return [await awaited(executor, threads, functions.same, number) for number in range(50)]

    assert run_loop(main()) == list(range(50))
    assert set(threads) == {threading.get_ident()}


@RUNNERS
def test_many_calls_at_once_on_a_loop(executor: ArenaExecutor, run_loop: RunLoop) -> None:
    async def main() -> list[Any]:
        return await asyncio.gather(*(awaited(executor, [], functions.same, number) for number in range(200)))

    assert run_loop(main()) == list(range(200))


@RUNNERS
def test_one_loop_after_the_other_and_plain_threads_between(executor: ArenaExecutor, run_loop: RunLoop) -> None:
    for turn in range(4):
        assert run_loop(awaited(executor, [], functions.same, turn)) == turn
        assert run(executor, functions.same, turn) == turn


def test_loops_on_several_threads_and_plain_threads_together(make: Make) -> None:
    executor = make(workers=2)

    async def main(number: int) -> None:
        for turn in range(30):
            assert await awaited(executor, [], functions.same, (number, turn)) == (number, turn)

    def plain(number: int) -> None:
        for turn in range(30):
            assert run(executor, functions.same, (number, turn)) == (number, turn)

    together(
        [lambda n=n: asyncio.run(main(n)) for n in range(3)]  # type: ignore[misc]
        + [lambda n=n: uvloop.run(main(n)) for n in range(3, 5)]  # type: ignore[misc]
        + [lambda n=n: plain(n) for n in range(5, 8)]  # type: ignore[misc]
    )


def test_a_loop_that_stops_with_a_call_under_way_does_not_take_the_worker_with_it(make: Make) -> None:
    executor = make()
    run(executor, functions.pid)

    async def leave() -> None:
        executor.submit(Call(functions.same, (1,)))

    asyncio.run(leave())
    time.sleep(0.05)
    assert run(executor, functions.same, 2) == 2
    assert asyncio.run(awaited(executor, [], functions.same, 3)) == 3


GEVENT = """
from gevent import monkey
if {patched}:
    monkey.patch_all()
import gevent, gevent.event, threading, sys
sys.path[:0] = {root!r}.split(":")
from greenlane.placement.arena.executor import ArenaExecutor
from greenlane.placement.arena.options import ArenaOptions
from greenlane.placement.arena.homes import HubHome
from greenlane.placement import Call
from tests.placement.arena import functions

executor = ArenaExecutor(ArenaOptions(workers=2, arena_mb=8))
hub = gevent.get_hub()
beats = []

def placed(number):
    done = gevent.event.Event()
    call = Call(functions.same, (number,))
    call.add_done_callback(lambda call: hub.loop.run_callback_threadsafe(done.set))
    executor.submit(call)
    assert done.wait(30), "no answer"
    return call.result()

def beat():
    while True:
        beats.append(1)
        gevent.sleep(0.001)

beating = gevent.spawn(beat)
jobs = [gevent.spawn(placed, number) for number in range(100)]
gevent.joinall(jobs, raise_error=True)
assert [job.value for job in jobs] == list(range(100))
assert any(isinstance(home, HubHome) for home in executor._homes.values())
assert beats
beating.kill()
executor.close(1)
print("well")
"""


@pytest.mark.parametrize("patched", [True, False], ids=["patched", "plain"])
def test_on_a_gevent_hub(run_python: RunPython, patched: bool) -> None:
    assert "well" in run_python(GEVENT.format(patched=patched, root=IMPORT_PATH)).stdout
