"""What recording adds to a task's step: `python -m bench.step_cost [--seconds 10]`.

Question: how many nanoseconds does one step of a task take longer, on asyncio and on uvloop, with the probes installed
and recording on, with recording off, beside not installed? Expected: at most 400 ns on, at most 50 ns off.

One round runs each contender for some thousand steps, in turns; the least of many rounds counts, so other load on the
machine hardly shows. `yield` is `asyncio.sleep(0)`; `pair` is two tasks that wake each other through futures, so a step
is a wake-up. It does not show the writer thread, which needs a core's time of its own: see `writer_ns`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from typing import Any

from greenlane._native import Recorder
from greenlane.probes import asyncio as probes

STEPS = 2_000


async def yielding() -> float:
    """A step that only gives way: seconds each, mean of `STEPS`."""
    sleep = asyncio.sleep
    begin = time.perf_counter()
    for _ in range(STEPS):
        await sleep(0)
    return (time.perf_counter() - begin) / STEPS


async def pair() -> float:
    """Two tasks that wake each other through futures: seconds a step."""
    loop = asyncio.get_running_loop()
    ping = [loop.create_future()]
    pong = [loop.create_future()]

    async def other() -> None:
        for _ in range(STEPS // 2):
            await ping[0]
            ping[0] = loop.create_future()
            pong[0].set_result(None)

    task = loop.create_task(other())
    await asyncio.sleep(0)
    begin = time.perf_counter()
    for _ in range(STEPS // 2):
        ping[0].set_result(None)
        await pong[0]
        pong[0] = loop.create_future()
    spent = time.perf_counter() - begin
    await task
    return spent / STEPS


def loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loops that are installed, by name."""
    made: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return made
    return {**made, "uvloop": uvloop.new_event_loop}


def run(loop: asyncio.AbstractEventLoop, program: Callable[[], Coroutine[Any, Any, float]]) -> float:
    """One round of a program, without the collector: ns a step."""
    gc.collect()
    gc.disable()
    try:
        return loop.run_until_complete(program()) * 1e9
    finally:
        gc.enable()


def measured(seconds: float) -> list[tuple[str, str, dict[str, list[float]]]]:
    """(loop, program, ns a step by mode), modes and programs taking turns for this many seconds."""
    recorder = Recorder()
    cells = [
        (name, program.__name__, make(), program, {mode: [] for mode in ("bare", "off", "on")})
        for name, make in loops().items()
        for program in (yielding, pair)
    ]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _, _, loop, program, times in cells:
            times["bare"].append(run(loop, program))
            probes.install()
            recorder.off()
            times["off"].append(run(loop, program))
            recorder.on()
            times["on"].append(run(loop, program))
            recorder.off()
            probes.uninstall()
            recorder.flush()
    for _, _, loop, _, _ in cells:
        loop.close()
    return [(name, program, times) for name, program, _, _, times in cells]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    seconds = parser.parse_args().seconds
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        recorder.start(folder, max_bytes=1 << 28, about="{}")
        rows = measured(seconds)
        recorder.stop()
        lost = recorder.stats()["lost"]
    print(f"CPython {sys.version.split()[0]}; ns a step, least of {len(rows[0][2]['bare'])} rounds (median)")
    print(f"{'loop':8} {'program':9} {'bare':>13} {'off adds':>13} {'on adds':>13}")
    for name, program, times in rows:
        least = {mode: min(values) for mode, values in times.items()}
        middle = {mode: statistics.median(values) for mode, values in times.items()}
        cells = [f"{least['bare']:6.0f} ({middle['bare']:.0f})"]
        cells += [f"{least[m] - least['bare']:6.0f} ({middle[m] - middle['bare']:.0f})" for m in ("off", "on")]
        print(f"{name:8} {program:9} " + " ".join(f"{cell:>13}" for cell in cells))
    print(f"events lost because a ring was full: {lost}")


if __name__ == "__main__":
    main()
