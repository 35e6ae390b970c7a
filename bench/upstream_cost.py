"""What one order costs the decisions of upstream keys: `arrive`, `next` and `ended`, by the number of keys.

    python -m bench.upstream_cost [--keys 10,1000,100000] [--orders 100000] [--rounds 5] [--json]

The question: how many ns do the three calls of one order take together, and how does that grow with the keys? Expected
before the first run: under 3 us with ten keys, and with 100,000 at most three times that, since everything is
O(log keys) and what grows is the caches' misses. Every key has an order parked or in progress all the time; 200 slots
are in use; the calls end in the order in which they began. Thread CPU clock, the calls from Python included. Memory:
what the process grows by for each known key without orders, and what is left of that once they are forgotten.

What it does not show: the shell around it (receive, acknowledge, threads).
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections import deque
from collections.abc import Sequence

from greenlane._native import Upstreams
from greenlane_tools.lab.environment import about
from greenlane_work.limits import CallOutcome, UpstreamRule

SCHEMA = "greenlane.upstream-cost/1"
_SLOTS = 200
_STEP_NS = 1_500_000
# Of which the memory is measured.
_KEYS = 100_000
_OK = int(CallOutcome.OK)


class Cell:
    """A full worker: this many keys, each with an order parked or in progress."""

    def __init__(self, keys: int) -> None:
        most = 10 * keys + 1_000
        rule = UpstreamRule(parked_most=most, all_parked_most=most, all_parked_most_bytes=most << 10, keys_most=most)
        self.upstreams = Upstreams(_SLOTS, rule)
        self.names = [f"merchant-{number}" for number in range(keys)]
        self.now_ns = 1
        self.number = 0
        self.running: deque[int] = deque()
        for _ in range(max(1, 4 * _SLOTS // keys)):
            for name in self.names:
                self.arrive(name)
        self.begin()
        # Every key has answered once: none is new.
        self.orders(2 * self.number)

    def arrive(self, name: str) -> None:
        """One more order of this key."""
        self.number += 1
        self.upstreams.arrive(self.number, name, self.now_ns, 1_000)

    def begin(self) -> None:
        """Begin what may begin."""
        while (start := self.upstreams.next(self.now_ns)) is not None:
            self.running.append(start.order)

    def orders(self, count: int) -> float:
        """ns of thread CPU of one order."""
        names = random.Random(count).choices(self.names, k=count)
        began_ns = time.thread_time_ns()
        for name in names:
            self.now_ns += _STEP_NS
            self.upstreams.ended(self.running.popleft(), self.now_ns, _OK)
            self.arrive(name)
            self.begin()
        return (time.thread_time_ns() - began_ns) / count

    def of_the_loop(self, count: int) -> float:
        """ns of thread CPU of the same loop without the three calls."""
        names = random.Random(count).choices(self.names, k=count)
        running = deque(range(_SLOTS))
        began_ns = time.thread_time_ns()
        for name in names:
            self.now_ns += _STEP_NS
            running.append(running.popleft())
            self.nothing(name)
        return (time.thread_time_ns() - began_ns) / count

    def nothing(self, name: str) -> None:
        """What the loop around each step costs by itself."""
        self.number += 1


def key_bytes(keys: int) -> tuple[float, float]:
    """(bytes that the process grows by for a key without orders, those left when they are forgotten)."""
    before = _resident()
    upstreams = Upstreams(_SLOTS, UpstreamRule(keys_most=keys, forget_ns=10**9))
    for number in range(keys):
        upstreams.arrive(number, f"merchant-{number}", 1, 1_000)
        start = upstreams.next(1)
        assert start is not None
        upstreams.ended(start.order, 2, _OK)
    known = _resident()
    assert upstreams.totals().keys == keys
    # Others come and go: nothing is added.
    for number in range(keys):
        upstreams.arrive(number, f"other-{number}", 3 * 10**9, 1_000)
        upstreams.next(3 * 10**9)
        upstreams.ended(number, 3 * 10**9, _OK)
    gc.collect()
    return (known - before) / keys, (_resident() - known) / keys


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def measured(keys: Sequence[int], orders: int, rounds: int) -> list[dict[str, object]]:
    """One row for each number of keys: the median round less the loop around the calls."""
    rows: list[dict[str, object]] = []
    for number in keys:
        cell = Cell(number)
        taken = sorted(cell.orders(orders) for _ in range(rounds))
        loop = min(cell.of_the_loop(orders) for _ in range(rounds))
        row: dict[str, object] = {
            "keys": number,
            "order_ns": round(taken[rounds // 2] - loop),
            "order_low_ns": round(taken[0] - loop),
            "order_high_ns": round(taken[-1] - loop),
            "samples": orders * rounds,
        }
        rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", default="10,1000,100000", help="numbers of keys, with commas")
    parser.add_argument("--orders", type=int, default=100_000, help="orders of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    keys = [int(part) for part in options.keys.split(",")]
    # First, while the process is small: freed memory that is used again would not be seen.
    known, further = (round(size) for size in key_bytes(_KEYS))
    rows = measured(keys, options.orders, options.rounds)
    if options.json:
        memory = {"known_keys": _KEYS, "known_key_bytes": known, "further_key_bytes": further}
        print(
            json.dumps(
                {"schema": SCHEMA, "environment": about(("greenlane",)), "memory": memory, "rows": rows}, indent=1
            )
        )
        return 0
    for row in rows:
        ns = f"{row['order_ns']:>6} ns an order ({row['order_low_ns']} to {row['order_high_ns']})"
        print(f"{row['keys']:>8} keys: {ns}")
    print(f"{known} bytes for each of {_KEYS} known keys without orders, {further} for each that comes after them")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
