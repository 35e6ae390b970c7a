"""What recording adds to the CPU of the pricing service, measured on one process: `python -m bench.record_toggle`.

Question: by how much does the CPU of the same work differ while the recording is on and while it is off? Expected: less
than 2 %.

Servers differ from each other by more than that (memory layout, the machine's other tenants), so no comparison of two
servers resolves it in minutes. Here one recorded service is switched off and on, live, in turns of about a second, and
in each turn does exactly the same requests; neighbours are compared. What "off" itself costs is not in the difference:
`python -m bench.call_cost` has it in nanoseconds.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from bench.record_cost import iterations_per_ms, started
from bench.recorded_contenders import RECORD, TOOLS, WORKERS, Watched
from greenlane.control import client as control
from greenlane_tools.lab import processes

#: One turn: (endpoint, path). 0.6 s of CPU in 1.2 s: half a core, with requests that wait for each other.
TURN: Final = (
    [("bikes", "/bikes")] * 8
    + [("scooters", "/scooters")] * 4
    + [("quote", f"/quote?ms={ms}") for ms in (12, 25, 38, 55, 70)]
    + [("surge", f"/surge?ms={ms}") for ms in (20, 30, 45)]
    + [("receipt", "/receipt")] * 8
)
SPACING_S: Final = 0.04
TARGET: Final = 1.02


def turn(server: Watched, order: random.Random) -> float:
    """Send one turn's requests and give the CPU of the service for them, ms."""
    requests = list(TURN)
    order.shuffle(requests)
    before_ns = processes.cpu_ns(server.server.pids())
    threads = []
    for name, path in requests:
        thread = threading.Thread(target=_ask, args=(server.server.address(name), path))
        thread.start()
        threads.append(thread)
        time.sleep(SPACING_S)
    for thread in threads:
        thread.join()
    return (processes.cpu_ns(server.server.pids()) - before_ns) / 1e6


def _ask(address: str, path: str) -> None:
    connection = HTTPConnection(address, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"GET {path}: {answer.status}")
    connection.close()


def ratios(worker: str, pairs: int, seed: int) -> tuple[list[float], float]:
    """On ÷ off of neighbouring turns, and the median turn's CPU while off, ms."""
    found, plain = [], []
    with started((RECORD,), worker, None, iterations_per_ms()) as (_, (server,)):
        sockets = [process.socket for process in control.processes(server.folder)]
        for number in range(pairs + 1):
            cpu_ms = {}
            for on in (number % 2 == 0, number % 2 == 1):  # who comes first changes
                for socket in sockets:
                    control.ask(socket, {"do": "record", "on": on})
                cpu_ms[on] = turn(server, random.Random(seed + number))
            if number:  # the first pair warms up
                found.append(cpu_ms[True] / cpu_ms[False])
                plain.append(cpu_ms[False])
                print(
                    f"  {worker:<12}{number:>3}  on {cpu_ms[True]:8.1f}  off {cpu_ms[False]:8.1f} ms", file=sys.stderr
                )
    return found, statistics.median(plain)


def main(argv: list[str]) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description="CPU of the same work, recorded and not, on one process")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--workers", default=",".join(WORKERS))
    parser.add_argument("--no-summary", action="store_true")
    given = parser.parse_args(argv)
    assert RECORD in TOOLS
    rows = []
    for worker in given.workers.split(","):
        found, plain_ms = ratios(worker, given.pairs, seed=1)
        low, high = _interval(found)
        middle = statistics.median(found)
        verdict = "holds" if high <= TARGET else "FAILS" if low > TARGET else "FAILS (interval crosses)"
        said = f"on ÷ off {middle:.4f} [{low:.4f}, {high:.4f}]  ≤ {TARGET}  {verdict}"
        print(f"{worker:<12}{said}  (off {plain_ms:.0f} ms)")
        rows.append({"worker": worker, "cpu_ratio": middle, "cpu_ratio_low": low, "cpu_ratio_high": high,
                     "pairs": len(found), "turn_cpu_ms": plain_ms, "verdict": verdict})  # fmt: skip
    if not given.no_summary:
        results = Path(__file__).parent / "results" / "record-toggle.json"
        document = {"schema": "greenlane.record-toggle/1", "rows": rows}
        results.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


def _interval(values: list[float]) -> tuple[float, float]:
    """95 % of the median, by resampling."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[-50]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
