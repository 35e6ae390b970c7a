"""Callers wait on loops, hubs and plain threads, all at the same workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from tests.lanes.burners import together
from tests.placement.processes import functions
from tests.placement.processes.conftest import Make
from tests.placement.processes.running import run

from greenlane.placement import Call, on_loop
from greenlane.placement.processes.executor import ProcessExecutor
from tests.fixtures import RunPython
from tests.where import IMPORT_PATH

# Each starts processes.
pytestmark = pytest.mark.slow

RUNNERS = pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
RunLoop = Callable[[Coroutine[Any, Any, Any]], Any]


async def awaited(executor: ProcessExecutor, fn: Callable[..., Any], *args: object) -> Any:
    call = Call(fn, args)
    await on_loop.wait(executor, call, asyncio.get_running_loop())
    return call.result()


@RUNNERS
def test_many_calls_at_once_on_a_loop(executor: ProcessExecutor, run_loop: RunLoop) -> None:
    async def main() -> list[Any]:
        return await asyncio.gather(*(awaited(executor, functions.same, number) for number in range(200)))

    assert run_loop(main()) == list(range(200))


@RUNNERS
def test_one_loop_after_the_other_and_plain_threads_between(executor: ProcessExecutor, run_loop: RunLoop) -> None:
    for turn in range(4):
        assert run_loop(awaited(executor, functions.same, turn)) == turn
        assert run(executor, functions.same, turn) == turn


def test_loops_on_several_threads_and_plain_threads_together(make: Make) -> None:
    executor = make(workers=2)

    async def main(number: int) -> None:
        for turn in range(30):
            assert await awaited(executor, functions.same, (number, turn)) == (number, turn)

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
    assert asyncio.run(awaited(executor, functions.same, 3)) == 3


GEVENT = """
from gevent import monkey
if {patched}:
    monkey.patch_all()
import gevent, gevent.event, threading, sys
sys.path[:0] = {root!r}.split(":")
from greenlane.placement.processes.executor import ProcessExecutor
from greenlane.placement.processes.options import ProcessOptions
from greenlane.placement import Call
from tests.placement.processes import functions

executor = ProcessExecutor(ProcessOptions(workers=2))
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
assert beats
beating.kill()
executor.close(1)
print("well")
"""


@pytest.mark.parametrize("patched", [True, False], ids=["patched", "plain"])
def test_on_a_gevent_hub(run_python: RunPython, patched: bool) -> None:
    assert "well" in run_python(GEVENT.format(patched=patched, root=IMPORT_PATH)).stdout
