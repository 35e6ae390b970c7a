"""What asking the store of orders costs: `python -m bench.orders_store [--rounds 3] [--seconds 5] [--json]`.

Questions, and what is expected (quiet machine, 2 cores, a disk whose fsync takes 1 ms):

- at 250 orders/s, which is what one loop of 3 ms tasks can do, each order is asked for and ended: `begin` p50 under 2
  commits of the disk, p99 under 5; CPU at most 0.4 ms an order with SQLite (a task costs 3.9 ms);
- with 64 callers that never rest, SQLite does over 1500 orders/s, and one commit serves ten operations or more.

An order is `begin`, then `done` with a result of 100 bytes. Latency of `begin` is counted from when the order was due.
`none` is the same program without a store: what its CPU per order is more than that, the store costs, its own thread
included and the server's not. `green`: the process is under `monkey.patch_all()`. PostgreSQL runs with fsync (the
tests' does not), Redis with `appendfsync always`: all three promise the same.

What it does not show: a network. Contenders take turns; each round and cell is a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RATE_PER_S = 250
CALLERS = 64


def main() -> int:
    """Measure all cells and print a row for each; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="per cell")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cell", nargs=4, metavar=("URL", "HOW", "LOAD", "SECONDS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        url, how, load, seconds = arguments.cell
        print(json.dumps(cell(url, how, load, float(seconds))))
        return 0
    rows = [summary(*key, cells) for key, cells in measured(arguments.rounds, arguments.seconds).items()]
    if arguments.json:
        from greenlane_tools.lab.environment import about

        environment = about(("greenlane", "psycopg", "redis"))
        print(
            json.dumps({"schema": "greenlane.bench.orders-store/1", "environment": environment, "rows": rows}, indent=2)
        )
        return 0
    print("load      threads  store     orders/s  begin p50/p99 ms  done p50/p99 ms  CPU us/order  operations/commit")
    for row in rows:
        print(
            f"{row['load']:<9} {row['threads']:<8} {row['store']:<9} {row['done_per_s']:8.0f}"
            f"  {row['begin_p50_ms']:7.2f} {row['begin_p99_ms']:8.2f}"
            f"  {row['done_p50_ms']:6.2f} {row['done_p99_ms']:8.2f}"
            f"  {row['cpu_us_per_order']:12.0f}  {row['operations_per_commit']:17.1f}"
        )
    return 0


def measured(rounds: int, seconds: float) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """Rows by (load, how, store), rounds interleaved."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    with places() as urls:
        for _ in range(rounds):
            for load in ("250/s", "64 callers"):
                for how in ("real", "green"):
                    for store, url in urls.items():
                        command = [sys.executable, "-m", "bench.orders_store", "--cell", url, how, load, str(seconds)]
                        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                        found.setdefault((load, how, store), []).append(json.loads(said))
    return found


@contextlib.contextmanager
def places() -> Iterator[dict[str, str]]:
    """URLs of the stores on real servers, gone after the block."""
    from tests.servers import Postgres, Redis

    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as folder,
        Postgres("fsync=on") as postgres,
        Redis("--appendonly", "yes", "--appendfsync", "always") as redis,
    ):
        yield {"none": "", "sqlite": f"sqlite:///{folder}/orders.db", "postgres": postgres.url, "redis": redis.url}


def cell(url: str, how: str, load: str, seconds: float) -> dict[str, Any]:
    """One cell, in this process: latencies in ms, CPU in us."""
    if how == "green":
        from gevent import monkey

        monkey.patch_all()
    from greenlane_work.store import open_store

    store = open_store(url, patience_s=60) if url else None
    run = f"{time.time_ns():x}"
    begins: list[float] = []
    dones: list[float] = []

    def order(number: int, due_s: float) -> None:
        if store is not None:
            store.begin(f"{run}-{number}")
        begun_s = time.perf_counter()
        if store is not None:
            store.done(f"{run}-{number}", b"r" * 100)
        begins.append((begun_s - due_s) * 1e3)
        dones.append((time.perf_counter() - begun_s) * 1e3)

    if store is not None:
        store.check()
    began_s, cpu_s = time.perf_counter(), time.process_time()
    (open_loop if load == "250/s" else closed_loop)(order, seconds, paced=store is None)
    took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    counts = store.counts if store is not None else None
    return {
        "begins": begins,
        "dones": dones,
        "per_s": len(dones) / took_s,
        "cpu_us": cpu_s / max(len(dones), 1) * 1e6,
        "batch": counts.operations / max(counts.commits, 1) if counts is not None else 0.0,
    }


def open_loop(order: Any, seconds: float, *, paced: bool) -> None:
    """Orders at their times, whatever became of those before, by 64 threads."""
    from concurrent.futures import ThreadPoolExecutor

    first_s = time.perf_counter() + 0.05
    with ThreadPoolExecutor(CALLERS) as pool:
        for number in range(int(seconds * RATE_PER_S)):
            due_s = first_s + number / RATE_PER_S
            time.sleep(max(due_s - time.perf_counter(), 0))
            pool.submit(order, number, due_s)


def closed_loop(order: Any, seconds: float, *, paced: bool) -> None:
    """64 callers, each with one order after the other."""
    until_s = time.perf_counter() + seconds

    def call(part: int) -> None:
        number = part
        while (now_s := time.perf_counter()) < until_s:
            order(number, now_s)
            number += CALLERS
            if paced:  # without a store a caller would never let the others run
                time.sleep(0.01)

    threads = [threading.Thread(target=call, args=(part,)) for part in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def summary(load: str, how: str, store: str, cells: list[dict[str, Any]]) -> dict[str, Any]:
    """One row: the rounds together."""
    begins = sorted(one for each in cells for one in each["begins"])
    dones = sorted(one for each in cells for one in each["dones"])

    def mean(name: str) -> float:
        return sum(each[name] for each in cells) / len(cells)

    return {
        "load": load,
        "threads": how,
        "store": store,
        "done_per_s": round(mean("per_s"), 1),
        "begin_p50_ms": round(quantile(begins, 0.5), 3),
        "begin_p99_ms": round(quantile(begins, 0.99), 3),
        "done_p50_ms": round(quantile(dones, 0.5), 3),
        "done_p99_ms": round(quantile(dones, 0.99), 3),
        "cpu_us_per_order": round(mean("cpu_us"), 1),
        "operations_per_commit": round(mean("batch"), 2),
        "samples": len(dones),
    }


def quantile(ordered: list[float], frac: float) -> float:
    """Of sorted values; 0 of none."""
    return ordered[min(int(frac * len(ordered)), len(ordered) - 1)] if ordered else 0.0


if __name__ == "__main__":
    sys.exit(main())
