"""One row a cell: what was measured, beside what was computed and what theory says."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from greenlane_tools.lab.part3.cells import Cell, Measured, Request, Run
from greenlane_tools.lab.statistics import quantile

Row = dict[str, Any]


def rows_of(measured: Measured) -> list[Row]:
    """Rows in the order of the cells; baselines that nobody asked for are none. Repetitions are pooled.

    `speedup` is None where one green thread of the runtime and shape was not run.
    """
    alone = {(cell.runtime, cell.shape): _per_s(runs) for cell, runs in measured.items() if cell.green_threads == 1}
    return [
        _row(cell, runs, alone.get((cell.runtime, cell.shape))) for cell, runs in measured.items() if not cell.baseline
    ]


def _row(cell: Cell, runs: Sequence[Run], baseline_per_s: float | None) -> Row:
    per_s = _per_s(runs)
    cpu_s = sum(run.cpu_ns for run in runs) / 1e9
    row: Row = {
        "contender": cell.runtime.name,
        "green_threads": cell.green_threads,
        "requests": cell.requests,
        "set_cpu_ms": cell.shape.cpu_ms,
        "set_network_ms": cell.shape.network_ms,
        "calls": cell.shape.calls,
        "together": cell.shape.together,
        "done_per_s": per_s,
        "speedup": per_s / baseline_per_s if baseline_per_s else None,
        "baseline_per_s": baseline_per_s,
        "cpu_utilisation_frac": cpu_s / sum(run.seconds for run in runs),
        "computed_utilisation_frac": per_s * cell.shape.cpu_ms / 1000,
        "cpu_ms_per_job": 1000 * cpu_s / sum(len(run.requests) for run in runs),
    }
    requests = [request for run in runs for request in run.requests]
    for clock in CLOCKS:
        values = latencies_ms(requests, clock)
        row |= {f"{clock}_p{share * 100:g}_ms": quantile(values, share) for share in (0.5, 0.95, 0.99)}
        row[f"{clock}_mean_ms"] = statistics.fmean(values)
    law = little(runs)
    row |= {f"little_{clock}_jobs": getattr(law, clock) for clock in CLOCKS}
    row["little_empty_jobs"] = law.empty
    yields = [run.yield_ns for run in runs if run.yield_ns is not None]
    return {
        **row,
        **_theory(cell),
        "yield_us": statistics.fmean(yields) / 1000 if yields else None,
        "samples": len(requests),
        "repetitions": len(runs),
        "others_cores": statistics.fmean(run.others_cores for run in runs),
        "runtime": runs[0].runtime,
    }


def _theory(cell: Cell) -> Row:
    mva_per_s, mva_ms = cell.shape.means(cell.green_threads)
    return {
        "bound_per_s": cell.shape.most_per_s(cell.green_threads),
        "bound_ms": cell.shape.least_ms(cell.green_threads),
        "mva_per_s": mva_per_s,
        "mva_ms": mva_ms,
    }


def _per_s(runs: Sequence[Run]) -> float:
    return sum(len(run.requests) for run in runs) / sum(run.seconds for run in runs)


# --- Latencies by three clocks, and Little's law: which of the clocks can be right.
#
# In a closed loop of N places each place holds one request at a time, so N = throughput × latency. A clock that starts
# later than the request gives less than N: this much of each request's time it does not see.

#: From the latest start to the earliest.
CLOCKS: Final = ("handler", "spawn", "arrival")


class Little(NamedTuple):
    """Throughput × mean latency by each clock: how many requests were in progress, as that clock sees it."""

    handler: float
    spawn: float
    arrival: float
    # Places that were empty on average: no request was left for them when the run ended.
    empty: float


def latencies_ms(requests: Iterable[Request], clock: str) -> list[float]:
    """From the clock's start to the end of the handler, ascending."""
    return sorted((request.end_ns - _start_ns(request, clock)) / 1e6 for request in requests)


def little(runs: Sequence[Run]) -> Little:
    """Over all runs of a cell; `arrival` + `empty` is N, exactly, by how an arrival is defined."""
    whole_ns = sum(run.ended_ns - run.began_ns for run in runs)
    handler, spawn, arrival = (
        sum(request.end_ns - _start_ns(request, clock) for run in runs for request in run.requests) / whole_ns
        for clock in CLOCKS
    )
    return Little(handler, spawn, arrival, sum(map(_empty_ns, runs)) / whole_ns)


def longest(run: Run, clock: str = "handler") -> Request:
    """The request that took longest by a clock; the first of several."""
    return max(run.requests, key=lambda request: request.end_ns - _start_ns(request, clock))


def _start_ns(request: Request, clock: str) -> int:
    match clock:
        case "handler":
            return request.handler_ns
        case "spawn":
            return request.spawn_ns
        case _:
            return request.arrival_ns


def _empty_ns(run: Run) -> int:
    """Time that places stood empty: each end of a request frees a place, each arrival takes one at that moment."""
    freed = Counter(request.end_ns for request in run.requests)
    freed[run.began_ns] += run.green_threads
    freed.subtract(request.arrival_ns for request in run.requests)
    return sum(places * (run.ended_ns - since_ns) for since_ns, places in freed.items())
