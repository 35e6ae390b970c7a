"""A run made by hand: five requests in two places, times in ms since an arbitrary begin."""

from __future__ import annotations

from greenlane_tools.lab.part3.cells import Cell, Request, Run
from greenlane_tools.lab.part3.runtimes import RUNTIMES, Shape

BEGAN_NS = 5_000_000_000
SHAPE = Shape(cpu_ms=20, network_ms=30)
CELL = Cell(RUNTIMES["gevent"], SHAPE, 2, 3)


def _request(number: int, arrival: int, spawn: int, *marks: int) -> Request:
    at = [BEGAN_NS + ms * 1_000_000 for ms in (arrival, spawn, *marks)]
    return Request(number, at[0], at[1], tuple(at[2:]))


#: Bursts of 10 ms, waits of 30: the third request takes the place that the first one leaves.
REQUESTS = (
    _request(0, 0, 0, 0, 10, 40, 50),
    _request(1, 0, 0, 10, 20, 50, 60),
    _request(2, 50, 60, 61, 71, 101, 111),
)


def made_run(requests: tuple[Request, ...] = REQUESTS, others_cores: float = 0.0) -> Run:
    """The run: 3 requests in 111 ms with 60 ms of CPU."""
    end_ns = max(request.end_ns for request in requests)
    return Run("gevent 1", SHAPE, 2, requests, BEGAN_NS, end_ns, 60_000_000, 1.0, 1500.0, others_cores)
