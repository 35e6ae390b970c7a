"""Three clocks on one gevent program: from the handler's first instruction, from the spawn, from the arrival.

Question: 500 requests of 5 ms CPU and 55 ms sleep (2.5 + 55 + 2.5), 50 at a time in `Pool(50)`: what does each clock
say? Expected: handler 182 ms, spawn 209 ms, arrival 250 ms at the median. Little's law: 50 requests in a process that
does 200 a second are 250 ms each; a clock that starts in the handler cannot see the rest.

Arrival: the load is closed, so a request arrives when the one before it in its place has ended. All three are read from
the recording; the program's own clocks stand beside them.

Usage: python bench/three_clocks.py [--requests 500] [--places 50] [--cpu-ms 5] [--sleep-ms 55]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import deque

import gevent
import gevent.pool

from greenlane._native import Recorder, calls_install
from greenlane.probes import gevent as probe
from greenlane.record.recording import open_recording
from greenlane.record.rows import Job

MS = 1e6


def burn(cpu_ns: float) -> None:
    """Use CPU of this thread; a clock on the wall would shrink the work on a busy machine."""
    end_ns = time.thread_time_ns() + cpu_ns
    while time.thread_time_ns() < end_ns:
        pass


def main() -> None:
    """Record the load and print the three clocks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--places", type=int, default=50)
    parser.add_argument("--cpu-ms", type=float, default=5)
    parser.add_argument("--sleep-ms", type=float, default=55)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own_ms = load(folder, options)
        jobs = open_recording(folder).jobs
    print(
        f"{options.requests} requests of {options.cpu_ms:g} ms CPU + {options.sleep_ms:g} ms, {options.places} at once"
    )
    print("clock      p50 ms   p95 ms   p99 ms   the program's own p50")
    for clock, latencies_ms in clocks(jobs).items():
        points = statistics.quantiles(latencies_ms, n=100)
        own = f"{statistics.median(own_ms[clock]):8.1f}"
        print(f"{clock:8} {points[49]:8.1f} {points[94]:8.1f} {points[98]:8.1f}   {own}")
    split = {
        "cpu": [job.cpu_ns for job in jobs],
        "io": [sum(job.io_ns.values()) for job in jobs],
        "wait": [sum(job.wait_ns.values()) for job in jobs],
    }
    print(
        "mean of the arrival's: " + ", ".join(f"{what} {statistics.mean(ns) / MS:.1f} ms" for what, ns in split.items())
    )


def clocks(jobs: list[Job]) -> dict[str, list[float]]:
    """The recording's latencies, ms."""
    return {
        "handler": [(job.end_ns - job.handler_ns) / MS for job in jobs],
        "spawn": [(job.end_ns - job.spawn_ns) / MS for job in jobs],
        "arrival": [job.latency_ns / MS for job in jobs],
    }


def load(folder: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Run the requests under the recorder; gives the program's own latencies, ms."""
    recorder = Recorder()
    recorder.start(folder, max_bytes=1 << 28, about="{}")
    calls_install()
    probe.install()
    begin_ns = time.monotonic_ns()
    free = deque([begin_ns] * options.places)
    own_ms: dict[str, list[float]] = {"handler": [], "spawn": [], "arrival": []}

    def request(arrival_ns: int, spawn_ns: int) -> None:
        handler_ns = time.monotonic_ns()
        number = recorder.open(arrival_ns=arrival_ns, spawn_ns=probe.spawned_ns(), clock="given", host="bench")
        recorder.name("request")
        burn(options.cpu_ms / 2 * MS)
        gevent.sleep(options.sleep_ms / 1000)
        burn(options.cpu_ms / 2 * MS)
        recorder.close(number)
        end_ns = time.monotonic_ns()
        free.append(end_ns)
        for clock, from_ns in (("handler", handler_ns), ("spawn", spawn_ns), ("arrival", arrival_ns)):
            own_ms[clock].append((end_ns - from_ns) / MS)

    pool = gevent.pool.Pool(options.places)
    for _ in range(options.requests):
        pool.wait_available()
        pool.spawn(request, free.popleft(), time.monotonic_ns())
    pool.join()
    probe.uninstall()
    recorder.stop()
    return own_ms


if __name__ == "__main__":
    main()
