"""How fast the plan's simulator is: requests a second on one core, and a plan's 200 cells on all cores.

Question: how many requests a second does one core simulate, and how long does a plan of 200 cells of a million requests
take? Expected: a million a second and more where requests only compute (an event costs 50 to 100 ns, a request has
two); 200 cells, some with three calls to upstreams around four bursts, in under four minutes on two cores.

What it does not show: many routes (each keeps a histogram of some 40 kB), queues that grow without bound (memory, not
time).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from typing import Any, Final

from greenlane_tools.plan.simulation import SimulationCell, simulate, simulate_cells

#: A plan's.
JOBS: Final = 1_000_000
CELLS: Final = 200
REPETITIONS: Final = 5
#: What is claimed: of M/M/1 on one core, and of a plan on all.
LEAST_PER_S: Final = 1_000_000.0
_MOST_S: Final = 240.0

_MM1: Final = [{"steps": [["cpu", -10 * math.log((part + 0.5) / 1000)]]} for part in range(1000)]
_PLAINEST: Final = {"routes": [{"route": "a", "rate_per_s": 90, "sequences": _MM1}]}
_BIKES: Final = {"steps": [["cpu", 1], ["io", 100], ["cpu", 1], ["io", 100], ["cpu", 1], ["io", 100], ["cpu", 1]]}
_QUOTE: Final = {"steps": [["cpu", 16]]}
_HOSTS: Final = ("gevent", "threads", "permits")
_SPREAD: Final[tuple[dict[str, Any], ...]] = (
    {"processes": 1},
    {"processes": 2, "queue": "accept"},
    {"processes": 4, "queue": "central"},
)


def jobs_per_s(jobs: int, repetitions: int) -> float:
    """M/M/1 on one core: the median of this many runs."""
    took = []
    for _ in range(repetitions):
        began = time.perf_counter()
        simulate(_PLAINEST, {"host": "gevent"}, jobs=jobs)
        took.append(time.perf_counter() - began)
    return (jobs + min(jobs // 10, 200_000)) / statistics.median(took)


def cells_took_s(count: int, jobs: int) -> float:
    """This many cells on all cores: hosts, processes and loads as a plan has them."""
    cells = []
    for number in range(count):
        over, load = _SPREAD[number // 3 % 3], 0.5 + 0.1 * (number // 9 % 6)
        set_up = {"host": _HOSTS[number % 3], **over}
        cells.append(SimulationCell(_pricing(over["processes"]), set_up, jobs=jobs, seed=1 + number // 54, load=load))
    began = time.perf_counter()
    simulate_cells(cells)
    return time.perf_counter() - began


def most_s(count: int, jobs: int) -> float:
    """What this many cells may take."""
    return _MOST_S * count * jobs / (CELLS * JOBS)


def _pricing(scale: float) -> Mapping[str, Any]:
    return {
        "routes": [
            {"route": "bikes", "rate_per_s": 20 * scale, "sequences": [_BIKES]},
            {"route": "quote", "rate_per_s": 48 * scale, "sequences": [_QUOTE]},
        ]
    }
