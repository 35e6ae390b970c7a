"""What a call to a worker process costs: `python -m bench.arena [--rounds 20] [--json]`.

Questions, and what is expected (quiet machine, 2 cores):

- an empty call from an asyncio loop and back: p50 at most 40 us, the loop's thread at most 50 us of CPU;
- 12 MB of float32 to the worker: p50 at most 0.6 ms, copying included;
- from 1 MB on at least 10 times faster than `ProcessPoolExecutor` with its defaults.

`greenlane` copies an array into the worker's arena; `greenlane-shared` has it made in memory that workers see
(`ArenaExecutor.empty`). Rivals: `ProcessPoolExecutor` with its defaults and on a forkserver, loky (which pickles by
protocol 5), and `by-hand`, a pool that is tuned for arrays as an expert would (`bench.arena_by_hand`).

All contenders are measured in one run, in turns: a round gives each contender a few calls of each payload. `in` sends
the payload and gets a number back, which the worker reads off one element; `sum` has it read all of it (some 0.4 ms of
the worker's own for 12 MB); `echo` gets the payload back. Each contender has one worker. Calls follow one another: this
shows what a call costs, not what happens under load. `loop_cpu` is the CPU of the loop's thread, `parent_cpu` that of
all threads of the calling process: `ProcessPoolExecutor` pickles and unpickles on threads of its own, under the same
GIL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import pickle
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from bench.arena_by_hand import ByHand
from greenlane.placement import Call, on_loop
from greenlane.placement.arena.executor import ArenaExecutor
from greenlane.placement.arena.names import shipped
from greenlane.placement.arena.options import ArenaOptions
from greenlane.placement.arena.parcel import pack_call
from greenlane_tools.lab.environment import about

Function = Callable[..., Any]
Place = Callable[..., Awaitable[Any]]


def nothing() -> None:
    """An empty call."""
    return None


def length(value: Any) -> int:
    """Read little of what is pickled."""
    return len(value)


def first(array: Any) -> float:
    """Read one value: what is measured is the crossing."""
    return float(array[0])


def total(array: Any) -> float:
    """Read all of it."""
    return float(array.sum())


def same(value: Any) -> Any:
    """Send it back."""
    return value


def floats(megabytes: float) -> Any:
    """float32, seeded."""
    return np.random.default_rng(1).random(int(megabytes * 250_000), dtype="f4")


#: name -> function, arguments, calls in a round.
PAYLOADS: dict[str, tuple[Function, tuple[Any, ...], int]] = {
    "empty": (nothing, (), 100),
    "1 kB dict in": (length, ({f"key {n}": n for n in range(60)},), 100),
    "720 kB in": (first, (floats(0.72),), 30),
    "720 kB echo": (same, (floats(0.72),), 30),
    "1 MB in": (first, (floats(1),), 30),
    "1 MB echo": (same, (floats(1),), 30),
    "4 MB in": (first, (floats(4),), 10),
    "4 MB echo": (same, (floats(4),), 10),
    "12 MB in": (first, (floats(12),), 10),
    "12 MB sum": (total, (floats(12),), 10),
    "12 MB echo": (same, (floats(12),), 5),
}


def contenders() -> tuple[dict[str, Place], list[Callable[[], object]]]:
    """Name -> places a call; and what ends them all."""
    loop = asyncio.get_running_loop()
    arena = ArenaExecutor(ArenaOptions(workers=1))
    by_hand = ByHand()
    pools: dict[str, Any] = {
        "process-pool": ProcessPoolExecutor(1),
        "process-pool-forkserver": ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")),
    }
    try:
        from loky import get_reusable_executor
    except ImportError:
        pass
    else:
        pools["loky"] = get_reusable_executor(max_workers=1)

    async def in_arena(fn: Function, *args: Any) -> Any:
        call = Call(fn, args)
        await on_loop.wait(arena, call, loop)
        return call.result()

    made: dict[int, Any] = {}

    async def shared(fn: Function, *args: Any) -> Any:
        """Arguments were made in shared memory: they are not copied in."""
        for array in args:
            if isinstance(array, np.ndarray) and id(array) not in made:
                made[id(array)] = arena.empty(array.shape, array.dtype)
                made[id(array)][...] = array
        return await in_arena(fn, *[made.get(id(value), value) for value in args])

    def in_pool(pool: Any) -> Place:
        return lambda fn, *args: loop.run_in_executor(pool, fn, *args)

    ends: list[Callable[[], object]] = [lambda: arena.close(1), by_hand.close]
    ends += [pool.shutdown for pool in pools.values()]
    in_pools = {name: in_pool(pool) for name, pool in pools.items()}
    return {"greenlane": in_arena, "greenlane-shared": shared, **in_pools, "by-hand": by_hand.place}, ends


class Cell:
    """One contender with one payload."""

    def __init__(self) -> None:
        self.took_us: list[float] = []
        # Of each round. On a machine with other work the least of them shows what a call costs.
        self.p50_us: list[float] = []
        self.loop_cpu_us: list[float] = []
        self.parent_cpu_us: list[float] = []

    async def run(self, place: Place, fn: Function, args: tuple[Any, ...], calls: int) -> None:
        """Make a round of calls, one after the other."""
        parent_ns, loop_ns = time.process_time_ns(), time.thread_time_ns()
        kept = len(self.took_us)
        for _ in range(calls):
            begun = time.perf_counter_ns()
            await place(fn, *args)
            self.took_us.append((time.perf_counter_ns() - begun) / 1e3)
        self.p50_us.append(statistics.median(self.took_us[kept:]))
        self.loop_cpu_us.append((time.thread_time_ns() - loop_ns) / calls / 1e3)
        self.parent_cpu_us.append((time.process_time_ns() - parent_ns) / calls / 1e3)


async def measured(rounds: int) -> dict[tuple[str, str], Cell]:
    """All cells; the first round warms up and is not kept."""
    places, ends = contenders()
    order = [(name, payload) for payload in PAYLOADS for name in places]
    choice = random.Random("arena")
    cells: dict[tuple[str, str], Cell] = {}
    for number in range(rounds + 1):
        if number < 2:
            cells = {key: Cell() for key in order}
        for payload in PAYLOADS:
            fn, args, calls = PAYLOADS[payload]
            for name in choice.sample(list(places), len(places)):
                await places[name](nothing)
                await cells[name, payload].run(places[name], fn, args, calls)
    for end in ends:
        end()
    return cells


def crossing_bytes(contender: str, payload: str) -> tuple[int, int]:
    """Bytes of a call's arguments in band and out of band."""
    fn, args, _ = PAYLOADS[payload]
    if contender.startswith("greenlane"):
        parcel = pack_call(shipped(fn), args, {}, fn.__name__)
        return parcel.in_band_bytes, parcel.out_of_band_bytes
    if contender == "by-hand" and args and isinstance(args[0], np.ndarray):
        return len(pickle.dumps((fn, args[0].shape, args[0].dtype.str))), args[0].nbytes
    return len(pickle.dumps((fn, args))), 0


def row(contender: str, payload: str, cell: Cell) -> dict[str, object]:
    """The cell as the `--json` has it."""
    took = sorted(cell.took_us)
    in_band, out_of_band = crossing_bytes(contender, payload)
    return {
        "contender": contender,
        "payload": payload,
        "samples": len(took),
        "p50_ms": statistics.median(took) / 1e3,
        "p50_least_ms": min(cell.p50_us) / 1e3,
        "p99_ms": took[int(len(took) * 0.99)] / 1e3,
        "loop_cpu_ms_per_call": statistics.median(cell.loop_cpu_us) / 1e3,
        "parent_cpu_ms_per_call": statistics.median(cell.parent_cpu_us) / 1e3,
        "bytes_in_band": in_band,
        "bytes_out_of_band": out_of_band,
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Print rows as a table."""
    ours = {row["payload"]: row["p50_least_ms"] for row in rows if row["contender"] == "greenlane"}
    heads = ("p50 us", "least p50", "p99 us", "loop us", "parent us", "times ours")
    print(f"{'payload':14} {'contender':24} " + " ".join(f"{head:>10}" for head in heads))
    for one in rows:
        print(
            f"{one['payload']:14} {one['contender']:24} {one['p50_ms'] * 1e3:10.1f} {one['p50_least_ms'] * 1e3:10.1f} "
            f"{one['p99_ms'] * 1e3:10.1f} {one['loop_cpu_ms_per_call'] * 1e3:10.1f} "
            f"{one['parent_cpu_ms_per_call'] * 1e3:10.1f} {one['p50_least_ms'] / ours[one['payload']]:10.1f}"
        )
    print("least p50: of the rounds' medians; times ours: of these")


def main() -> None:
    """Measure, and print the table or the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of all contenders and payloads (default 20)")
    parser.add_argument("--uvloop", action="store_true", help="on uvloop instead of asyncio's own loop")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    options = parser.parse_args()
    if options.uvloop:
        import uvloop

        cells = uvloop.run(measured(options.rounds))
    else:
        cells = asyncio.run(measured(options.rounds))
    rows = [row(contender, payload, cell) for (contender, payload), cell in cells.items()]
    if options.json:
        environment = about(["greenlane", "numpy", "loky", "uvloop"])
        print(json.dumps({"schema": "greenlane.bench.arena/1", "environment": environment, "rows": rows}, indent=1))
    else:
        table(rows)


if __name__ == "__main__":
    main()
