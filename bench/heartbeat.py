"""A heartbeat beside CPU-bound callers: `python -m bench.heartbeat [--seconds 5] [--repetitions 5] [--json]`.

Question: how much later does a coroutine (greenlet) that sleeps 1 ms come back while 4 callers, one after the other
each, have 20 ms of pure Python computed: by `greenlane.run`, by `asyncio.to_thread` (gevent: the hub's thread pool)
under the default interval and under 0.5 ms, by a pool of one thread under 0.5 ms, and inline? And how much work is
done meanwhile?
Expected: added p99 at most 5 ms for greenlane.run on each loop, and at least 0.98 of the work of inline, served beats
included, and of the pool of one.

Heartbeats are work too: inline serves next to none, and each that is served takes the loop's own CPU (`idle` shows how
much) and two hand-overs of the GIL from the work. So three shares are shown: `work_frac`, calls done against inline in
the same repetition; `served_frac`, the same with the heartbeats' own CPU counted as work; and `bound_frac`, calls done
against the pool of one, the least that keeps the GIL from the loop for half a millisecond only: what a heartbeat costs
anybody.

Each run is a process of its own; the contenders take turns. *Added* is against `idle`, the same heartbeat alone. All
runs compute the same number of iterations a call, so work is calls a second. It does not show I/O, nor calls that
release the GIL.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

from bench.heartbeat_cell import compute
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.statistics import quantile

LOOPS = ("asyncio", "uvloop", "gevent")
CONTENDERS = ("idle", "greenlane", "to-thread", "to-thread-0.5ms", "pool-of-1-0.5ms", "inline")
CALLERS = 4
CALL_MS = 20.0


def iterations_of(call_ms: float) -> int:
    """How many iterations take so long on this machine, by the fastest of several tries."""
    trial = 200_000
    fastest_s = min(_seconds(trial) for _ in range(7))
    return round(trial * call_ms / 1000 / fastest_s)


def _seconds(iterations: int) -> float:
    begin = time.perf_counter()
    compute(iterations)
    return time.perf_counter() - begin


def run(loop: str, contender: str, iterations: int, seconds: float) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "bench.heartbeat_cell", loop, contender, str(CALLERS), str(iterations)]
    done = subprocess.run([*command, str(seconds)], capture_output=True, text=True, timeout=seconds * 3 + 60)
    if done.returncode:
        raise SystemExit(f"{loop} {contender}: exit {done.returncode}\n{done.stderr}")
    return dict(json.loads(done.stdout))


def row(loop: str, contender: str, runs: dict[tuple[str, str], list[dict[str, Any]]]) -> dict[str, object]:
    """The row of a cell, pooled over its repetitions."""
    late_ms = sorted(late for each in runs[loop, contender] for late in each["late_ms"])
    idle_ms = sorted(late for each in runs[loop, "idle"] for late in each["late_ms"])
    jobs = sum(each["jobs"] for each in runs[loop, contender])
    work = _share(runs[loop, contender], runs[loop, "inline"])
    beat_s = statistics.median(each["cpu_s"] / max(len(each["late_ms"]), 1) for each in runs[loop, "idle"])
    beats_per_s = len(late_ms) / sum(each["seconds"] for each in runs[loop, contender])
    inline_beats = sum(len(each["late_ms"]) for each in runs[loop, "inline"])
    more_beats_per_s = beats_per_s - inline_beats / sum(each["seconds"] for each in runs[loop, "inline"])
    return {
        "stage": loop,
        "contender": contender,
        "samples": len(late_ms),
        "added_p50_ms": round(quantile(late_ms, 0.5) - quantile(idle_ms, 0.5), 3),
        "added_p99_ms": round(quantile(late_ms, 0.99) - quantile(idle_ms, 0.99), 3),
        "p99_ms": round(quantile(late_ms, 0.99), 3),
        "done_per_s": round(jobs / sum(each["seconds"] for each in runs[loop, contender]), 2),
        "work_frac": round(work, 3),
        "served_frac": round(work + more_beats_per_s * beat_s, 3),
        "bound_frac": round(_share(runs[loop, contender], runs[loop, "pool-of-1-0.5ms"]), 3),
        "beats_per_s": round(beats_per_s),
        "cpu_ms_per_job": round(1000 * sum(each["cpu_s"] for each in runs[loop, contender]) / max(jobs, 1), 2),
    }


def _share(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> float:
    """The median share of the work of others, repetition by repetition."""
    return statistics.median(_per_s(one) / _per_s(other) for one, other in zip(some, others, strict=True))


def _per_s(one: dict[str, Any]) -> float:
    return float(one["jobs"] / one["seconds"])


def _turned(contenders: tuple[str, ...], by: int) -> tuple[str, ...]:
    by %= len(contenders)
    return contenders[by:] + contenders[:by]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=5, help="counted seconds a run")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=LOOPS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    iterations = iterations_of(CALL_MS)
    runs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for repetition in range(options.repetitions):
        for loop in options.loops:
            for contender in _turned(CONTENDERS, repetition):
                print(f"{repetition + 1}/{options.repetitions} {loop} {contender}", file=sys.stderr)
                runs[loop, contender].append(run(loop, contender, iterations, options.seconds))
    rows = [row(loop, contender, runs) for loop in options.loops for contender in CONTENDERS]
    if options.json:
        environment = {**about(["gevent", "uvloop"]), "callers": CALLERS, "call_ms": CALL_MS, "iterations": iterations}
        print(json.dumps({"schema": "greenlane.bench-heartbeat/1", "environment": environment, "rows": rows}, indent=1))
        return
    print(" ".join(f"{name:>16}" for name in rows[0]))
    for each in rows:
        print(" ".join(f"{value!s:>16}" for value in each.values()))


if __name__ == "__main__":
    main()
