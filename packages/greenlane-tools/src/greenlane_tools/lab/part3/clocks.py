"""Latencies by three clocks, and Little's law: which of the clocks can be right.

In a closed loop of N places each place holds one request at a time, so N = throughput × latency. A clock that starts
later than the request gives less than N: so much of each request's time it does not see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from greenlane_tools.lab.part3.run import Request, Run

__all__ = ["CLOCKS", "Little", "latencies_ms", "little", "longest"]

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
