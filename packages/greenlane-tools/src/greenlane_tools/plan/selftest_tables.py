"""Tables that the simulator's self-test is held to: simulated elsewhere, by other programs, before this one existed.

Idealised like it: no cost of switching, Poisson arrivals, an order that knows at once who is ready. 200,000 to 600,000
requests a cell, so that a p99 at 0.9 of the capacity is itself good to 15 %. Times are ms unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["CLOSED_FIVE", "CLOSED_ONE", "DISPATCH", "DISPATCH_COLUMNS", "LOOP", "MANY", "MIXED", "ORDER", "Figures"]

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
#: the table does not say; with it they agree): order, clients -> p50, p95, p99.
ORDER: Final[Mapping[tuple[str, int], Figures]] = {
    ("turns", 12): (66, 126, 168),
    ("turns", 20): (96, 160, 201),
    ("turns", 50): (247, 323, 363),
    ("oldest", 12): (68, 129, 171),
    ("oldest", 20): (97, 164, 205),
    ("oldest", 50): (247, 330, 376),
    ("turns-2ms", 12): (65, 131, 179),
    ("turns-2ms", 20): (91, 185, 266),
    ("turns-2ms", 50): (200, 507, 829),
}

#: 95 % requests of 40 ms of CPU, 5 % of 3 x 100 ms of I/O with 4 x 2 ms of CPU around, at 0.8 of the CPU: policy ->
#: p50 and p99 of the CPU requests, constant and lognormal (coefficient of variation 1); and the part in % of the I/O
#: requests that takes over 500 ms, constant, at 0.6, 0.7, 0.8, 0.9.
MIXED: Final[Mapping[str, tuple[tuple[float, float], tuple[float, float], tuple[float, float, float, float]]]] = {
    "turns": ((90, 452), (127, 937), (13.7, 28.8, 50.2, 74.8)),
    "oldest": ((90, 456), (128, 944), (2.6, 7.7, 19.6, 46.3)),
    "first": ((90, 459), (129, 950), (0, 0, 0, 0)),
    "first-2ms": ((90, 444), (133, 972), (0, 0, 0, 0)),
    "turns-2ms": ((141, 762), (106, 1394), (0, 0, 0.2, 5.5)),
    "turns-5ms": ((134, 732), (110, 1430), (-1, -1, 5.6, 27)),
    # A real GIL's: who computes fares as with slices of 5 ms; who comes from an upstream waits for one of them only.
    "threads": ((134, 732), (110, 1430), (-1, -1, -1, -1)),
    "own-process": ((88, 441), (124, 914), (0, 0, 0, 0)),
    "shared-2": ((40, 97), (35, 254), (0, 0, 0.02, 0.09)),
}

#: The same over 4 processes, constant, each at 0.6, 0.7, 0.8, 0.9: dispatch and policy -> p50 and p99 of the CPU
#: requests; None = more than can be served, or not given.
MANY: Final[Mapping[str, tuple[tuple[float, float] | None, ...]]] = {
    "random": ((54, 219), (69, 296), (90, 450), (159, 935)),
    "shortest": ((40, 102), (40, 118), (58, 157), (78, 275)),
    "shortest first": ((40, 102), None, (58, 157), (78, 276)),
    "shortest first-2ms": ((40, 100), None, (58, 153), (78, 240)),
    "hard lane": ((53, 161), (92, 373), None, None),
    "pinned lane": ((40, 109), (42, 134), (66, 181), (96, 312)),
}

DISPATCH_COLUMNS: Final = ("reuse-port", "round-robin", "two-choices", "shortest", "central", "central-2", "sharing")

#: Processes in order of arrival: (law, processes, load) -> p50, p95, p99 by column, in mean services. `sharing` =
#: processes that share their CPU, each request to the one with the fewest.
DISPATCH: Final[Mapping[tuple[str, int, float], tuple[Figures | None, ...]]] = {
    ("exponential", 4, 0.7): (
        (2.3, 10, 15.5), (1.6, 6.7, 10.5), (1.3, 5.0, 7.5), (1.1, 4.4, 6.5), (1.0, 3.7, 5.4), (1.1, 4.2, 6.2),
        (1.0, 4.9, 8.2),
    ),
    ("exponential", 4, 0.8): (
        (3.5, 16, 24), (2.3, 9.9, 15.6), (1.8, 6.3, 9.1), (1.4, 5.5, 8.1), (1.3, 4.6, 6.7), (1.4, 5.2, 7.3),
        (1.2, 6.5, 11.3),
    ),
    ("exponential", 4, 0.9): (
        (7.2, 33, 54), (4.5, 20, 30), (2.9, 9.5, 13.6), (2.4, 8.9, 12.7), (2.3, 7.8, 10.9), (2.5, 8.3, 11.4),
        (1.7, 11, 21),
    ),
    ("exponential", 16, 0.9): (
        (7.1, 29, 44), (3.9, 17, 25), (2.4, 7.2, 10.1), (1.2, 4.5, 6.6), (1.1, 3.7, 5.2), (1.2, 4.4, 6.3), None,
    ),
    ("lognormal", 4, 0.7): (
        (2.7, 25, 48), (1.9, 23, 46), (1.2, 9.7, 20), (0.9, 7.8, 17), (0.9, 6.0, 11.6), (0.9, 7.0, 13.8),
        (0.6, 5.9, 14),
    ),
    ("lognormal", 4, 0.8): (
        (4.9, 38, 67), (3.7, 34, 63), (1.9, 14, 26), (1.3, 11, 24), (1.4, 9.0, 17), (1.5, 9.9, 19), (0.8, 7.9, 20),
    ),
    ("lognormal", 16, 0.9): (
        (13, 74, 113), (9.2, 60, 92), (2.8, 14, 26), (1.0, 7.6, 15.6), (1.0, 5.7, 9.9), (1.1, 6.8, 12.6), None,
    ),
    ("two sizes", 4, 0.8): (
        (8.6, 41, 63), (7.0, 36, 55), (1.0, 18, 28), (0.8, 13, 23), (0.9, 11, 16.5), (0.9, 12, 18), (0.9, 10.5, 27),
    ),
    ("constant", 4, 0.8): (
        (2.3, 7.6, 11), (1.1, 2.5, 3.4), (1.5, 3.0, 4.0), (1.2, 2.8, 3.7), (1.1, 2.6, 3.5), (1.2, 2.7, 3.6),
        (1.7, 3.8, 5.4),
    ),
}  # fmt: skip
