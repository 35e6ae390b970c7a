"""Which rule for stopping long phases leaves no class worse than plain threads? A model of one core.

    python -m bench.permit_order [--jobs 8000] [--seeds 1]

Question: is there an allowance and a penalty with which no class is over 1.1 times threads, at p50 and p99, in any mix?
Expected: not in all: where quotes vary much (cv 2) threads give short quotes at once what an order by class cannot.

Classes as in the pricing demo, Poisson arrivals, loads 0.6, 0.8 and 0.9; quotes with a coefficient of variation of 0.5,
1 and 2, with hogs of 400 ms (15 % of the CPU), and with searches of 5 ms of which one in ten is 60 ms. Each is compared
with processor sharing, what threads do once they compute; before that they wait for the GIL in turn
(`docs/design/0026-stopping-threads.md`). The rules are those of greenlane-policy's `order` and
`queue::stopping`: what runs is not stopped within its allowance; over it, it goes on only while nobody waits whose key
is smaller. Left out: light work, what a switch costs, stops that end after 1 s, holders that must not be stopped.
"""

from __future__ import annotations

import argparse
import heapq
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

LOADS: Final = (0.6, 0.8, 0.9)
THETA_MS: Final = 60.0
# Class: share of the CPU, mean ms, coefficient of variation.
_DEMO: Final = {"quote": (0.71, 43.0, 1.0), "surge": (0.11, 20.0, 0.5), "receipt": (0.055, 7.8, 0.3),
                "report": (0.066, 6.5, 0.3), "search": (0.059, 10.6, 0.3)}  # fmt: skip
_MIXES: Final = ("cv 0.5", "cv 1", "cv 2", "hogs", "bimodal")

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Rule:
    """How long a phase runs at least, and how far it falls behind then."""

    #: ms; `inf` = nobody is stopped.
    allowance_ms: float
    penalty_ms: float
    #: How often the CPU that it has used counts.
    attained: float
    #: Whether the allowance is that many means of its class, in place of ms.
    by_class: bool = False
    #: What is left of its boost over the allowance.
    boost_left: float = 0.0

    @property
    def text(self) -> str:
        """As it is printed."""
        unit = "means" if self.by_class else "ms"
        return (f"allowance {self.allowance_ms:g} {unit}, penalty {self.penalty_ms:g} ms, CPU had x {self.attained:g}, "
                f"boost left {self.boost_left:g}")  # fmt: skip


@dataclass(frozen=True)
class Load:
    """What came: names of classes, and of each job its time, class, size and its class' mean, ms."""

    names: list[str]
    at: Floats
    of: np.ndarray[Any, np.dtype[np.int64]]
    size: Floats
    mean: Floats


def drawn(mix: str, load: float, jobs: int, seed: int) -> Load:
    """Jobs of a mix."""
    classes = dict(_DEMO)
    if mix.startswith("cv"):
        classes["quote"] = (0.71, 43.0, float(mix[3:]))
    if mix == "hogs":
        classes = {name: (share * 0.85, mean, cv) for name, (share, mean, cv) in classes.items()}
        classes["hog"] = (0.15, 400.0, 0.2)
    random = np.random.default_rng(seed)
    names = list(classes)
    rates = np.array([load * share / mean for share, mean, _ in classes.values()])
    at = np.cumsum(random.exponential(1 / rates.sum(), jobs))
    of = random.choice(len(names), jobs, p=rates / rates.sum())
    size = np.empty(jobs)
    for number, (_, mean, cv) in enumerate(classes.values()):
        mine = of == number
        spread = math.sqrt(math.log(1 + cv * cv))
        size[mine] = random.lognormal(math.log(mean) - spread * spread / 2, spread, mine.sum())
    if mix == "bimodal":
        mine = of == names.index("search")
        size[mine] = np.where(random.random(mine.sum()) < 0.1, 60.0, 5.0)
    mean = np.array([size[of == number].mean() for number in range(len(names))])[of]
    return Load(names, at, of, size, mean)


def threads(load: Load) -> Floats:
    """Latencies, ms, where all that are there share the core."""
    at, size, jobs = load.at, load.size, len(load.at)
    latency = np.empty(jobs)
    had, now, came = 0.0, 0.0, 0
    running: list[tuple[float, int]] = []
    while came < jobs or running:
        ends = now + (running[0][0] - had) * len(running) if running else math.inf
        if came < jobs and at[came] < ends:
            if running:
                had += (at[came] - now) / len(running)
            now = at[came]
            heapq.heappush(running, (had + size[came], came))
            came += 1
        else:
            had, now = running[0][0], ends
            job = heapq.heappop(running)[1]
            latency[job] = now - at[job]
    return latency


def stopped(load: Load, rule: Rule) -> Floats:
    """Latencies, ms, where one runs at a time and what is over its allowance is stopped."""
    at, size, mean, jobs = load.at.tolist(), load.size.tolist(), load.mean.tolist(), len(load.at)
    boost = (-THETA_MS * np.log(-np.expm1(-load.mean / THETA_MS))).tolist()
    allowed = [rule.allowance_ms * (mean[job] if rule.by_class else 1.0) for job in range(jobs)]
    latency, used = np.empty(jobs), [0.0] * jobs
    waiting: list[tuple[float, int]] = []
    now, came, holder, may_until = 0.0, 0, -1, 0.0
    while came < jobs or waiting or holder >= 0:
        if holder < 0:
            if not waiting:
                now = at[came]
                heapq.heappush(waiting, (at[came] - boost[came], came))
                came += 1
            holder = heapq.heappop(waiting)[1]
            # A phase that goes on after a stop is not stopped again immediately.
            may_until = max(allowed[holder], used[holder] + 1.0) if used[holder] else allowed[holder]
        until = size[holder]
        if waiting:
            behind = at[holder] + rule.penalty_ms - rule.boost_left * boost[holder]
            crossed = (waiting[0][0] - behind) / rule.attained if rule.attained else -math.inf
            crossed = crossed if rule.attained or behind > waiting[0][0] else math.inf
            until = min(until, max(may_until, crossed))
        ends = now + max(until - used[holder], 0.0)
        if came < jobs and at[came] < ends:
            used[holder] += at[came] - now
            now = at[came]
            heapq.heappush(waiting, (at[came] - boost[came], came))
            came += 1
            continue
        now, used[holder] = ends, max(until, used[holder])
        if used[holder] >= size[holder]:
            latency[holder] = now - at[holder]
        else:
            key = at[holder] + rule.penalty_ms + rule.attained * used[holder] - rule.boost_left * boost[holder]
            heapq.heappush(waiting, (key, holder))
        holder = -1
    return latency


def worst(load: Load, ours: Floats, theirs: Floats) -> tuple[float, str]:
    """The largest ratio over classes, p50 and p99, and whose it is."""
    warm = len(ours) // 20
    of = load.of[warm:]
    found = []
    for number, name in enumerate(load.names):
        mine = of == number
        for share in (50, 99):
            ratio = np.percentile(ours[warm:][mine], share) / np.percentile(theirs[warm:][mine], share)
            found.append((float(ratio), f"{name} p{share}"))
    return max(found)


def rules() -> Iterator[Rule]:
    """Those that are tried."""
    yield Rule(math.inf, 0.0, 8.0)
    for allowance_ms in (10.0, 20.0, 50.0):
        for penalty_ms in (0.0, 100.0, 300.0):
            for attained in (0.0, 8.0, 16.0, 32.0):
                yield Rule(allowance_ms, penalty_ms, attained)
    yield Rule(1.0, 0.0, 8.0, by_class=True)
    yield Rule(2.0, 0.0, 8.0, by_class=True)
    for attained in (8.0, 32.0):
        yield Rule(10.0, 0.0, attained, boost_left=1.0)


def main(argv: list[str]) -> int:
    """Prints the rules, best first."""
    parser = argparse.ArgumentParser(prog="python -m bench.permit_order", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--jobs", type=int, default=8_000)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args(argv)
    loads = [(f"{mix} at {load:g}", drawn(mix, load, given.jobs, seed))
             for mix in _MIXES for load in LOADS for seed in range(1, given.seeds + 1)]  # fmt: skip
    shared = [threads(load) for _, load in loads]
    rows = []
    for rule in rules():
        found = [(*worst(load, stopped(load, rule), theirs), name)
                 for (name, load), theirs in zip(loads, shared, strict=True)]  # fmt: skip
        ratio, whose, where = max(found)
        over = sum(one[0] > 1.1 for one in found)
        rows.append((ratio, float(np.mean([one[0] for one in found])), over, f"{whose}, {where}", rule.text))
        print(".", end="", file=sys.stderr, flush=True)
    print("\nworst   mean   over 1.1  whose                        rule")
    for ratio, mean, over, whose, text in sorted(rows):
        print(f"{ratio:5.2f}  {mean:5.2f}  {over:3d} of {len(loads):<3d} {whose:28s} {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
