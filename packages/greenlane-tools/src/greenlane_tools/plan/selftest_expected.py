"""What the simulator's self-test is held to: theory in units of the mean service, and tables of other programs.

The tables were simulated elsewhere before this simulator existed. Idealised like it: no cost of switching, Poisson
arrivals, an order that knows at once who is ready. 200,000 to 600,000 requests a cell, so that a p99 at 0.9 of the
capacity is itself good to 15 %. Times are ms unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from greenlane_tools.plan.slots import waits_frac

__all__ = [
    "CLOSED_FIVE", "CLOSED_ONE", "DISPATCH", "DISPATCH_COLUMNS", "LOOP", "MANY", "MIXED", "ORDER", "Figures",
    "md1_mean", "md1_quantile", "mm1_mean", "mm1_quantile", "mmk_mean", "mmk_quantile",
]  # fmt: skip

#: p50, p95, p99.
Figures = tuple[float, float, float]

#: A closed loop, 5 ms of CPU around one wait of 55 ms: clients -> latency of each.
CLOSED_ONE: Final[Mapping[int, float]] = {**dict.fromkeys(range(1, 13), 60.0), 13: 65.0, 20: 100.0, 50: 250.0}

#: The same CPU in six bursts around five waits of 11 ms. Without variance ties decide which order a loop settles in.
CLOSED_FIVE: Final[Mapping[int, float]] = {9: 61.5, 11: 63.0, 12: 64.7, 13: 66.2, 15: 75.0, 20: 100.0, 50: 250.0}

#: gevent's `Pool` in a closed loop: (CPU, wait, places) -> done a second, as real gevent did it on a quiet machine.
LOOP: Final[Mapping[tuple[float, float, int], float]] = {
    (5, 55, 1): 16.5, (5, 55, 5): 82.0, (5, 55, 50): 198.8, (50, 150, 5): 19.6,
}  # fmt: skip

#: The first loop with bursts that are lognormal with a coefficient of variation of 1, and a wait with one of 0.5 (which
#: the table does not say; with it they agree): clients -> p50, p95, p99.
ORDER: Final[Mapping[int, Figures]] = {12: (66, 126, 168), 20: (96, 160, 201), 50: (247, 323, 363)}

#: 95 % requests of 40 ms of CPU, 5 % of 3 x 100 ms of I/O with 4 x 2 ms of CPU around, at 0.8 of the CPU: way to serve
#: -> p50 and p99 of the CPU requests, constant and lognormal (coefficient of variation 1); and the part in % of the I/O
#: requests that takes over 500 ms, constant, at 0.6, 0.7, 0.8, 0.9, where it is given.
MIXED: Final[Mapping[str, tuple[tuple[float, float], tuple[float, float], tuple[float, ...]]]] = {
    "turns": ((90, 452), (127, 937), ()),
    # Who computes fares as with slices of 5 ms.
    "threads": ((134, 732), (110, 1430), ()),
    "own-process": ((88, 441), (124, 914), (0, 0, 0, 0)),
    "shared-2": ((40, 97), (35, 254), (0, 0, 0.02, 0.09)),
}

#: The same over 4 processes, constant, at 0.6, 0.7, 0.8, 0.9 as far as it can be served: dispatch -> p50 and p99 of the
#: CPU requests.
MANY: Final[Mapping[str, tuple[tuple[float, float], ...]]] = {
    "random": ((54, 219), (69, 296), (90, 450), (159, 935)),
    "shortest": ((40, 102), (40, 118), (58, 157), (78, 275)),
    "hard lane": ((53, 161), (92, 373)),
}

DISPATCH_COLUMNS: Final = ("reuse-port", "round-robin", "two-choices", "shortest", "central", "central-2")

#: Processes in order of arrival: (law, processes, load) -> p50, p95, p99 by column, in mean services.
DISPATCH: Final[Mapping[tuple[str, int, float], tuple[Figures, ...]]] = {
    ("exponential", 4, 0.7): (
        (2.3, 10, 15.5), (1.6, 6.7, 10.5), (1.3, 5, 7.5), (1.1, 4.4, 6.5), (1, 3.7, 5.4), (1.1, 4.2, 6.2),
    ),
    ("exponential", 4, 0.8): (
        (3.5, 16, 24), (2.3, 9.9, 15.6), (1.8, 6.3, 9.1), (1.4, 5.5, 8.1), (1.3, 4.6, 6.7), (1.4, 5.2, 7.3),
    ),
    ("exponential", 4, 0.9): (
        (7.2, 33, 54), (4.5, 20, 30), (2.9, 9.5, 13.6), (2.4, 8.9, 12.7), (2.3, 7.8, 10.9), (2.5, 8.3, 11.4),
    ),
    ("exponential", 16, 0.9): (
        (7.1, 29, 44), (3.9, 17, 25), (2.4, 7.2, 10.1), (1.2, 4.5, 6.6), (1.1, 3.7, 5.2), (1.2, 4.4, 6.3),
    ),
    ("lognormal", 4, 0.7): (
        (2.7, 25, 48), (1.9, 23, 46), (1.2, 9.7, 20), (0.9, 7.8, 17), (0.9, 6, 11.6), (0.9, 7, 13.8),
    ),
    ("lognormal", 4, 0.8): (
        (4.9, 38, 67), (3.7, 34, 63), (1.9, 14, 26), (1.3, 11, 24), (1.4, 9, 17), (1.5, 9.9, 19),
    ),
    ("lognormal", 16, 0.9): (
        (13, 74, 113), (9.2, 60, 92), (2.8, 14, 26), (1, 7.6, 15.6), (1, 5.7, 9.9), (1.1, 6.8, 12.6),
    ),
    ("two sizes", 4, 0.8): (
        (8.6, 41, 63), (7, 36, 55), (1, 18, 28), (0.8, 13, 23), (0.9, 11, 16.5), (0.9, 12, 18),
    ),
    ("constant", 4, 0.8): (
        (2.3, 7.6, 11), (1.1, 2.5, 3.4), (1.5, 3, 4), (1.2, 2.8, 3.7), (1.1, 2.6, 3.5), (1.2, 2.7, 3.6),
    ),
}  # fmt: skip


def mm1_mean(load: float) -> float:
    """Mean time in M/M/1: 1 / (1 - load)."""
    return 1 / (1 - load)


def mm1_quantile(load: float, frac: float) -> float:
    """Time in M/M/1 is exponential, too."""
    return -math.log(1 - frac) / (1 - load)


def md1_mean(load: float) -> float:
    """Mean time in M/D/1: Pollaczek and Khinchine."""
    return 1 + load / (2 * (1 - load))


def md1_quantile(load: float, frac: float) -> float:
    """A high quantile of the time in M/D/1, by the exponential tail of the wait; within 1e-4 from 0.9 on.

    P(wait > t) = C e^(-xt) with load (e^x - 1) = x and C = (1 - load) / (load e^x - 1): W. Feller, An Introduction to
    Probability Theory and Its Applications II (1971), XI.6 and XII.5.
    """
    decay = _root(lambda x: load * math.expm1(x) - x, 1e-9 + (1 - load) / 2, 50.0)
    constant = (1 - load) / (load * math.exp(decay) - 1)
    return 1 + math.log(constant / (1 - frac)) / decay


def mmk_mean(servers: int, load: float) -> float:
    """Mean time in M/M/k, by Erlang's C."""
    return 1 + waits_frac(servers * load, servers) / (servers * (1 - load))


def mmk_quantile(servers: int, load: float, frac: float) -> float:
    """A quantile of the time in M/M/k: a wait (exponential with probability C, else none) and a service."""
    waits, rate = waits_frac(servers * load, servers), servers * (1 - load)

    def beyond(t: float) -> float:
        service = math.exp(-t)
        both = (rate * service - math.exp(-rate * t)) / (rate - 1) if rate != 1 else (1 + t) * service
        return (1 - waits) * service + waits * both

    return _root(lambda t: (1 - frac) - beyond(t), 0.0, 1e4)


def _root(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that is below 0 first and above it then crosses."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) < 0 else (low, middle)
    return high
