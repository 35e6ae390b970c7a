"""How fast the plan's simulator is: requests and events a second on one core, and a plan's 200 cells on all cores.

    python -m bench.simulate [--jobs N] [--repetitions N] [--cells N]

Question: how many requests a second does one core simulate, by host and dispatch, and how long does a plan of 200 cells
of a million requests take? Expected: a million a second and more where requests only compute (an event costs 50 to 100
ns, a request has two), also where they ask for permits; half of that with three calls to upstreams around four bursts;
200 cells in under four minutes on two cores. The first and the last are claimed; fewer cells may take as much less.

Each case is run `--repetitions` times, interleaved; the table has the median. What it does not show: many routes (each
keeps histograms of some 40 kB), queues that grow without bound (memory, not time).
Exit codes: 0 both hold, 1 one does not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from greenlane.cli.output import Output
from greenlane.cli.progress import bar
from greenlane_tools.plan.simulation import SimulationCell, simulate, simulate_cells

#: A plan's.
JOBS: Final = 1_000_000
CELLS: Final = 200
REPETITIONS: Final = 5
#: What is claimed: of the plainest case on one core, and of a plan on all.
LEAST_PER_S: Final = 1_000_000.0
_MOST_S: Final = 240.0
PLAINEST: Final = "M/M/1"

_ONE: Final = {"steps": [["cpu", 10, "exponential"]]}
_BIKES: Final = {"steps": [["cpu", 1], ["io", 100], ["cpu", 1], ["io", 100], ["cpu", 1], ["io", 100], ["cpu", 1]]}
_QUOTE: Final = {"steps": [["cpu", 16]]}


def _single(per_s: float) -> Mapping[str, Any]:
    return {"routes": [{"route": "a", "rate_per_s": per_s, "sequences": [_ONE]}]}


def _pricing(scale: float = 1.0) -> Mapping[str, Any]:
    return {
        "routes": [
            {"route": "bikes", "rate_per_s": 20 * scale, "sequences": [_BIKES]},
            {"route": "quote", "rate_per_s": 48 * scale, "sequences": [_QUOTE]},
        ]
    }


_FOUR: Final = {"processes": 4, "at_once": 1}
CASES: Final[Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]] = {
    PLAINEST: (_single(90), {"host": "gevent"}),
    "M/M/4 central": (_single(360), {"host": "gevent", "queue": "central", **_FOUR}),
    "permits, one burst": (_single(80), {"host": "permits"}),
    "pricing, threads": (_pricing(), {"host": "threads"}),
    "pricing, permits": (_pricing(), {"host": "permits"}),
    "pricing, 4 workers behind one queue": (_pricing(4), {"host": "permits", "processes": 4, "queue": "central"}),
}


def cells(count: int, jobs: int) -> list[SimulationCell]:
    """A plan's: hosts, processes and loads."""
    hosts: list[dict[str, Any]] = [{"host": "gevent"}, {"host": "threads"}, {"host": "permits"}]
    spread: list[dict[str, Any]] = [
        {"processes": 1},
        {"processes": 2, "queue": "accept"},
        {"processes": 4, "queue": "central"},
    ]
    found = []
    for number in range(count):
        host, over = hosts[number % 3], spread[number // 3 % 3]
        load = 0.5 + 0.1 * (number // 9 % 6)
        found.append(
            SimulationCell(_pricing(over["processes"]), {**host, **over}, jobs=jobs, seed=1 + number // 54, load=load)
        )
    return found


def single_core(names: Sequence[str], jobs: int, repetitions: int) -> list[dict[str, Any]]:
    """A row for each of these cases: the median of interleaved runs."""
    took: dict[str, list[float]] = {name: [] for name in names}
    events: dict[str, int] = {}
    for _ in range(repetitions):
        for name in names:
            profile, set_up = CASES[name]
            began = time.perf_counter()
            found = simulate(profile, set_up, jobs=jobs)
            took[name].append(time.perf_counter() - began)
            events[name] = found.events
    rows: list[dict[str, Any]] = []
    for name, times in took.items():
        took_s = statistics.median(times)
        whole = jobs + min(jobs // 10, 200_000)
        rows.append(
            {
                "case": name,
                "jobs_per_s": round(whole / took_s),
                "ns_per_event": round(1e9 * took_s / events[name], 1),
                "took_s": round(took_s, 3),
            }
        )
    return rows


def cells_took_s(count: int, jobs: int, progress: Callable[[float], object] | None = None) -> float:
    """So many cells on all cores."""
    began = time.perf_counter()
    simulate_cells(cells(count, jobs), progress=progress)
    return time.perf_counter() - began


def most_s(count: int, jobs: int) -> float:
    """What so many cells may take."""
    return _MOST_S * count * jobs / (CELLS * JOBS)


def holds(rows: Sequence[Mapping[str, Any]]) -> bool:
    """M/M/1, and the cells where there are some."""
    fast = all(row["jobs_per_s"] >= LEAST_PER_S for row in rows if row["case"] == PLAINEST)
    return fast and all(row["took_s"] <= row["most_s"] for row in rows if "most_s" in row)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--cells", type=int, default=CELLS, help="0 = none")
    arguments = parser.parse_args(argv)
    rows = single_core(list(CASES), arguments.jobs, arguments.repetitions)
    if arguments.cells:
        with bar(Output.standard(), f"{arguments.cells} cells") as progress:
            took_s = cells_took_s(arguments.cells, arguments.jobs, progress)
        rows.append(
            {
                "case": f"{arguments.cells} cells on all cores",
                "jobs_per_s": round(arguments.cells * arguments.jobs / took_s),
                "took_s": round(took_s, 1),
                "most_s": round(most_s(arguments.cells, arguments.jobs), 1),
            }
        )
    for row in rows:
        shown = [f"{row['case']:38}", f"{row['jobs_per_s']:>12,} jobs/s", f"{row['took_s']:>8} s"]
        if "ns_per_event" in row:
            shown.append(f"{row['ns_per_event']:>7} ns an event")
        print("  ".join(shown))
    print("holds" if holds(rows) else "FAILS")
    return 0 if holds(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
