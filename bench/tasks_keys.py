"""What 100,000 merchants with an order an hour get beside busy, hanging and flooding ones, and what memory they take.

    python -m bench.tasks_keys [--keys 100000] [--minutes 20] [--json]

Question: is each healthy merchant served alike, however rare its orders are, and how much memory does the worker need?
Asked: Jain's index of their service of 0.95 or more. Expected: 1.0 where there is room, since strangers have a tenth of
the slots together, four times what they want here; and in overload 0.95 or more among the busy ones.

Simulated time, the worker's own decisions (`Upstreams`) with the default settings; 200 slots, 300 ms a call. The rare
merchants' orders come at random times, the busy ones' at fixed distances. Beside them, by case: nothing; a busy
merchant that takes 30 s a call; a flood of 2,000 orders a second of one key; one in a hundred of the rare ones takes 30
s; and busy ones that want a quarter more than there is. `service` of a merchant: the share of its orders that ended
within a second of their arrival, in overload of those that came. Jain's index: the square of the sum over the number
times the sum of the squares; 1 = all alike. Memory: what the process grows by in a run.

It does not show the broker: orders over the bound go back to it, and count as not served here.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from greenlane._native import Upstreams
from greenlane_tools.lab.environment import about
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.settings import WorkSettings

SCHEMA: Final = "greenlane.tasks-keys/1"
SLOTS: Final = 200
BUSY: Final = 60
CALL_NS: Final = 300_000_000
SLOW_NS: Final = 30_000_000_000
SOON_NS: Final = 1_000_000_000
S: Final = 1_000_000_000
_OK: Final = int(CallOutcome.OK)
JAIN_LEAST: Final = 0.95


@dataclass(frozen=True)
class Case:
    """What is beside the rare merchants. Rates in orders a second; 0 = none."""

    name: str
    busy_per_s: float = 7.0
    hanging_per_s: float = 0.0
    flood_per_s: float = 0.0
    #: One in this many rare merchants takes 30 s a call; 0 = none.
    slow_one_in: int = 0


CASES: Final = (
    Case("nothing"),
    Case("a busy one hangs", hanging_per_s=10.0),
    Case("a flood of one key", flood_per_s=2_000.0),
    Case("1 % of the rare ones hang", slow_one_in=100),
    Case("overload", busy_per_s=14.0),
)


def arrivals(case: Case, keys: int, seconds: float) -> Iterator[tuple[int, str]]:
    """When an order of which merchant arrives, in order of time."""
    chance = random.Random(7)

    def rare() -> Iterator[tuple[int, str]]:
        at_s = 0.0
        while (at_s := at_s + chance.expovariate(keys / 3600)) < seconds:
            yield int(at_s * S), f"rare-{chance.randrange(keys)}"

    def steady(name: str, per_s: float, phase: float) -> Iterator[tuple[int, str]]:
        return ((int((number + phase) / per_s * S), name) for number in range(int(per_s * seconds)))

    streams = [rare(), *(steady(f"busy-{number}", case.busy_per_s, number / BUSY) for number in range(BUSY))]
    for name, per_s in (("hanging", case.hanging_per_s), ("flood", case.flood_per_s)):
        if per_s:
            streams.append(steady(name, per_s, 0.5))
    return heapq.merge(*streams)


def is_slow(case: Case, name: str) -> bool:
    """Whether its calls take 30 s."""
    if name == "hanging":
        return True
    kind, _, number = name.partition("-")
    return bool(case.slow_one_in) and kind == "rare" and int(number) % case.slow_one_in == 0


def measure(case: Case, keys: int, seconds: float) -> dict[str, Any]:
    """One run, as a row."""
    before_mb = _memory_mb()
    upstreams = Upstreams(SLOTS, UpstreamRule.of(WorkSettings(task_key="args.0")))
    came: Counter[str] = Counter()
    done: Counter[str] = Counter()
    orders: dict[int, tuple[int, str]] = {}
    ends: list[tuple[int, int]] = []
    numbers = itertools.count(1)
    known_most = 0

    def begin(now_ns: int) -> None:
        while (start := upstreams.next(now_ns)) is not None:
            heapq.heappush(ends, (now_ns + (SLOW_NS if is_slow(case, start.key) else CALL_NS), start.order))

    def end_until(until_ns: int) -> None:
        while ends and ends[0][0] <= until_ns:
            now_ns, order = heapq.heappop(ends)
            upstreams.ended(order, now_ns, _OK)
            arrived_ns, name = orders.pop(order)
            done[name] += now_ns - arrived_ns <= SOON_NS or case.name == "overload"
            begin(now_ns)

    for at_ns, name in arrivals(case, keys, seconds):
        end_until(at_ns)
        number = next(numbers)
        came[name] += 1
        orders[number] = (at_ns, name)
        upstreams.arrive(number, name, at_ns, 500)
        begin(at_ns)
        for gone in upstreams.surplus(at_ns):
            del orders[gone]
        if number % 1000 == 0:
            known_most = max(known_most, upstreams.totals().keys)
    end_until(int(seconds * S) + 2 * SOON_NS)
    healthy = [name for name in came if name.startswith(("rare", "busy")) and not is_slow(case, name)]
    service = {name: done[name] / came[name] for name in healthy}
    by_kind = {kind: [service[name] for name in healthy if name.startswith(kind)] for kind in ("rare", "busy")}
    return {
        "case": case.name, "merchants": len(came), "orders": sum(came.values()), "keys_known_most": known_most,
        **{f"{kind}_service_frac": round(sum(shares) / len(shares), 4) for kind, shares in by_kind.items()},
        **{f"jain_{kind}": round(jain(shares), 4) for kind, shares in by_kind.items()},
        "jain": round(jain(list(service.values())), 4), "memory_mb": round(_memory_mb() - before_mb, 1),
    }  # fmt: skip


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness: 1 where all have the same, 1/n where one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def _memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> int:
    """Run all cases; exit code 1: some index is below what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000, help="merchants with an order an hour (100000)")
    parser.add_argument("--minutes", type=float, default=20.0, help="of simulated time in each case (20)")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    rows = []
    for case in CASES:
        rows.append(measure(case, said.keys, said.minutes * 60))
        if not said.json:
            print(json.dumps(rows[-1]), flush=True)
    if said.json:
        print(json.dumps({"schema": SCHEMA, "environment": about(()), "rows": rows}))
    least = min(row["jain"] for row in rows)
    print(f"least index of the healthy merchants: {least:.3f} (asked: {JAIN_LEAST})", file=sys.stderr)
    return 0 if least >= JAIN_LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
