"""`greenlane plan selftest`: the simulator against what is known without it: theory, bounds, tables of other programs.

| group | expected from | tolerance |
|---|---|---|
| `closed` | bounds of a closed loop without variance | mean 0.1 %, p50 1 %; 6 % where ties decide |
| `law` | theory: M/M/1, M/D/1, M/M/4 at 0.9, 20 million requests each | mean 2 %, p99 5 % |
| `loop` | real gevent on a quiet machine | 3 % of the throughput |
| `order`, `mixed`, `many`, `dispatch` | `selftest_expected` | 30 % of p99, 20 % of p50; parts late: 3 points |

One CPU that takes turns is gevent's loop here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from greenlane_tools.plan import selftest_expected as expected_by
from greenlane_tools.plan.simulation import Simulated, SimulationCell, simulate_cells

__all__ = ["GROUPS", "Figure", "SelftestRow", "Trial", "run", "trials"]

GROUPS: Final = ("closed", "law", "loop", "order", "mixed", "many", "dispatch")

_P99: Final = 0.30
_P50: Final = 0.20
_LATE: Final = 0.03
#: Of a percentile that is read off a histogram.
_RESOLUTION: Final = 0.01
#: Requests of a cell whose expected value is exact, or has its own noise.
_EXACT_JOBS: Final = 20_000_000
_TABLE_JOBS: Final = 600_000
_CLOSED_JOBS: Final = 60_000
#: A mean service of the tables, ms.
_UNIT_MS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a run, and what it should be."""

    name: str
    expected: float
    tolerance_frac: float
    read: Callable[[Simulated], float]
    #: `frac`: a share, and the tolerance is a difference of shares.
    unit: Literal["ms", "per_s", "frac"] = "ms"


@dataclass(frozen=True, slots=True)
class Trial:
    """One run with its figures."""

    group: str
    case: str
    profile: Mapping[str, Any]
    set_up: Mapping[str, Any]
    jobs: int
    figures: tuple[Figure, ...]
    load: float = 1.0


@dataclass(frozen=True, slots=True)
class SelftestRow:
    """A figure after its run."""

    group: str
    case: str
    expected: float
    simulated: float
    tolerance_frac: float
    unit: str

    @property
    def error_frac(self) -> float:
        """How far off: relative, of shares absolute."""
        difference = abs(self.simulated - self.expected)
        return difference if self.unit == "frac" else difference / self.expected

    @property
    def holds(self) -> bool:
        """Whether that is within the tolerance; of an exact one, but for the last bits."""
        return self.error_frac <= self.tolerance_frac + 1e-9

    def to_json(self) -> dict[str, object]:
        """As a row of `--json`: in its own unit, and in ms: of a rate the time for one, of a share null."""
        own = {f"expected_{self.unit}": self.expected, f"simulated_{self.unit}": self.simulated}
        return {
            "group": self.group, "case": self.case, "unit": self.unit,
            "expected_ms": self._ms(self.expected), "simulated_ms": self._ms(self.simulated), **own,
            "error_frac": self.error_frac, "tolerance_frac": self.tolerance_frac, "holds": self.holds,
        }  # fmt: skip

    def _ms(self, value: float) -> float | None:
        if self.unit == "per_s":
            return 1000 / value if value else None
        return value if self.unit == "ms" else None


def run(
    groups: Sequence[str] = GROUPS, *, part: float = 1.0, progress: Callable[[float], object] | None = None
) -> list[SelftestRow]:
    """Run the trials of these groups.

    Args:
        part: of each trial's requests, 0 to 1, at least 10,000; the tolerances are for 1.

    Cost: at 1 about a minute on two cores.
    """
    chosen = [each for each in trials() if each.group in groups]
    cells = [
        SimulationCell(each.profile, each.set_up, jobs=max(10_000, int(each.jobs * part)), load=each.load)
        for each in chosen
    ]
    # The longest first: the last one to end is then a short one.
    order = sorted(range(len(cells)), key=lambda number: -cells[number].jobs)
    found = dict(zip(order, simulate_cells([cells[number] for number in order], progress=progress), strict=True))
    return [
        SelftestRow(trial.group, f"{trial.case} {figure.name}", figure.expected, figure.read(found[number]),
            figure.tolerance_frac, figure.unit)
        for number, trial in enumerate(chosen) for figure in trial.figures
    ]  # fmt: skip


def trials() -> Iterator[Trial]:
    """All of them."""
    yield from _closed()
    yield from _laws()
    yield from _loop()
    yield from _order()
    yield from _mixed()
    yield from _many()
    yield from _dispatch()


def _closed() -> Iterator[Trial]:
    ideal = {"host": "gevent"}
    for clients, expected_ms in expected_by.CLOSED_ONE.items():
        # What is in progress at both ends is all that it may err by.
        mean = Figure("mean", expected_ms, 0.001, _mean)
        profile = _closed_loop(clients, 5, 55, 0)
        yield Trial("closed", f"5, then 55 N={clients}", profile, ideal, _CLOSED_JOBS, (mean,))
        # Half of the CPU before the wait, half behind it: at the knee some pay for the order, most do not.
        middle = Figure("p50", expected_ms, _RESOLUTION, _quantile(0.5))
        profile = _closed_loop(clients, 5, 55, 1)
        yield Trial("closed", f"5 around 55 N={clients}", profile, ideal, _CLOSED_JOBS, (middle,))
    for clients, expected_ms in expected_by.CLOSED_FIVE.items():
        # In units of 6 ms: a burst is then a whole number of ns, and ties are ties.
        tolerance = _RESOLUTION if clients >= 15 else 0.06
        middle = Figure("p50", expected_ms, tolerance, lambda found: _quantile(0.5)(found) / 6)
        profile = _closed_loop(clients, 30, 330, 5)
        yield Trial("closed", f"5 x 11 N={clients}", profile, ideal, _CLOSED_JOBS, (middle,))


def _laws() -> Iterator[Trial]:
    load, unit = 0.9, _UNIT_MS
    single = {"host": "gevent"}
    four = {"host": "gevent", "processes": 4, "queue": "central", "at_once": 1}
    cases: list[tuple[str, list[object], int, Mapping[str, object], float, float]] = [
        ("M/M/1", ["exponential"], 1, single, expected_by.mm1_mean(load), expected_by.mm1_quantile(load, 0.99)),
        ("M/D/1", [], 1, single, expected_by.md1_mean(load), expected_by.md1_quantile(load, 0.99)),
        ("M/M/4", ["exponential"], 4, four, expected_by.mmk_mean(4, load), expected_by.mmk_quantile(4, load, 0.99)),
    ]
    for name, law, servers, set_up, mean, p99 in cases:
        figures = (Figure("mean", mean * unit, 0.02, _mean), Figure("p99", p99 * unit, 0.05, _quantile(0.99)))
        profile = _simple(1000 * load * servers / unit, [[1, ["cpu", unit, *law]]])
        yield Trial("law", f"{name} at {load}", profile, set_up, _EXACT_JOBS, figures)


def _loop() -> Iterator[Trial]:
    for (cpu_ms, wait_ms, places), per_s in expected_by.LOOP.items():
        figure = Figure("throughput", per_s, 0.03, _throughput, "per_s")
        profile = _closed_loop(places, cpu_ms, wait_ms, 1)
        case = f"gevent {cpu_ms:g}/{wait_ms:g} N={places}"
        yield Trial("loop", case, profile, {"host": "gevent"}, _CLOSED_JOBS, (figure,))


def _order() -> Iterator[Trial]:
    for clients, expected in expected_by.ORDER.items():
        yield Trial("order", f"N={clients}", _varied_loop(clients), _ONE, _TABLE_JOBS, _figures(expected))


def _mixed() -> Iterator[Trial]:
    for policy, (constant, varied, late) in expected_by.MIXED.items():
        # One process more of the same: the load that one would have.
        for law, expected in ((False, constant), (True, varied)):
            case = f"{policy} {'lognormal' if law else 'constant'} at 0.8"
            yield Trial("mixed", case, _mix(0.8, law), _MIXED[policy], _TABLE_JOBS, _two(expected))
        for load, percent in zip((0.6, 0.7, 0.8, 0.9), late, strict=False):
            figure = Figure("late", percent / 100, _LATE, _late, "frac")
            yield Trial("mixed", f"{policy} at {load}", _mix(load, False), _MIXED[policy], _TABLE_JOBS, (figure,))


def _many() -> Iterator[Trial]:
    for policy, cells in expected_by.MANY.items():
        for load, expected in zip((0.6, 0.7, 0.8, 0.9), cells, strict=False):
            profile = _mix(4 * load, False)
            yield Trial("many", f"{policy} at {load}", profile, _MANY[policy], _TABLE_JOBS, _two(expected))


def _dispatch() -> Iterator[Trial]:
    for (law, processes, load), cells in expected_by.DISPATCH.items():
        for column, expected in zip(expected_by.DISPATCH_COLUMNS, cells, strict=True):
            profile = _simple(1000 * load * processes / _UNIT_MS, _DISPATCH_LAWS[law])
            figures = _figures((expected[0] * _UNIT_MS, expected[1] * _UNIT_MS, expected[2] * _UNIT_MS))
            case = f"{law} k={processes} at {load} {column}"
            yield Trial("dispatch", case, profile, _dispatch_set_up(column, processes), _TABLE_JOBS, figures)


#: (weight, step) of a request of 10 ms on average.
_DISPATCH_LAWS: Final[Mapping[str, list[list[Any]]]] = {
    "exponential": [[1, ["cpu", 10, "exponential"]]],
    "lognormal": [[1, ["cpu", 10, "lognormal", 2.0]]],
    "two sizes": [[95, ["cpu", 5]], [5, ["cpu", 105]]],
    "constant": [[1, ["cpu", 10]]],
}


_ONE: Final[Mapping[str, object]] = {"host": "gevent"}
_LANE: Final[Mapping[str, object]] = {"name": "io", "routes": ["io"], "kind": "hard", "processes": 1}
_MIXED: Final[Mapping[str, Mapping[str, object]]] = {
    "turns": _ONE,
    "threads": {"host": "threads"},
    "own-process": {**_ONE, "processes": 2, "queue": "shortest", "lanes": [_LANE]},
    "shared-2": {**_ONE, "processes": 2, "queue": "shortest"},
}
_MANY: Final[Mapping[str, Mapping[str, object]]] = {
    "random": {**_ONE, "processes": 4, "queue": "reuse-port"},
    "shortest": {**_ONE, "processes": 4, "queue": "shortest"},
    "hard lane": {**_ONE, "processes": 4, "queue": "shortest", "lanes": [_LANE]},
}


def _dispatch_set_up(column: str, processes: int) -> dict[str, object]:
    queue, _, at_once = column.partition("central-")
    return {**_ONE, "processes": processes, "queue": queue or "central", "at_once": int(at_once or 1)}


def _mix(load: float, varied: bool) -> dict[str, object]:
    """95 % CPU, 5 % I/O at this many CPUs' work."""
    io: list[list[object]] = [["cpu", 2]]
    for _ in range(3):
        io += [["io", 100], ["cpu", 2]]
    cpu: list[object] = ["cpu", 40, "lognormal", 1.0] if varied else ["cpu", 40]
    per_s = 1000 * load / (0.95 * 40 + 0.05 * 8)
    return {
        "routes": [
            {"route": "cpu", "rate_per_s": 0.95 * per_s, "sequences": [{"steps": [cpu]}]},
            {"route": "io", "rate_per_s": 0.05 * per_s, "sequences": [{"steps": io}]},
        ]
    }


def _simple(rate_per_s: float, laws_of_steps: list[list[Any]]) -> dict[str, object]:
    sequences = [{"weight": weight, "steps": [step]} for weight, step in laws_of_steps]
    return {"routes": [{"route": "a", "rate_per_s": rate_per_s, "sequences": sequences}]}


def _varied_loop(clients: int) -> dict[str, object]:
    """Two bursts of 2.5 ms around 55 ms of waiting, lognormal; their coefficients of variation are 1 and 0.5."""
    burst: list[object] = ["cpu", 2.5, "lognormal", 1.0]
    steps = [burst, ["io", 55, -1, "lognormal", 0.5], burst]
    return {
        "arrivals": {"clients": clients},
        "routes": [{"route": "a", "rate_per_s": 1, "sequences": [{"steps": steps}]}],
    }


def _closed_loop(clients: int, cpu_ms: float, wait_ms: float, calls: int) -> dict[str, object]:
    """CPU in `calls` + 1 bursts around as many waits; 0 = one burst and one wait."""
    if calls == 0:
        routes = [{"route": "a", "rate_per_s": 1, "sequences": [{"steps": [["cpu", cpu_ms], ["io", wait_ms]]}]}]
        return {"arrivals": {"clients": clients}, "routes": routes}
    burst: list[object] = ["cpu", cpu_ms / (calls + 1)]
    steps = [burst]
    for _ in range(calls):
        steps += [["io", wait_ms / calls], burst]
    routes = [{"route": "a", "rate_per_s": 1, "sequences": [{"steps": steps}]}]
    return {"arrivals": {"clients": clients}, "routes": routes}


def _figures(expected: expected_by.Figures) -> tuple[Figure, ...]:
    p50, p95, p99 = expected
    return (
        Figure("p50", p50, _P50, _quantile(0.5)),
        Figure("p95", p95, _P99, _quantile(0.95)),
        Figure("p99", p99, _P99, _quantile(0.99)),
    )


def _two(expected: tuple[float, float]) -> tuple[Figure, ...]:
    return Figure("p50", expected[0], _P50, _quantile(0.5)), Figure("p99", expected[1], _P99, _quantile(0.99))


def _mean(found: Simulated) -> float:
    return found.routes[0].mean_ms


def _quantile(frac: float) -> Callable[[Simulated], float]:
    return lambda found: found.routes[0].percentile_ms(frac)


def _throughput(found: Simulated) -> float:
    """By Little's law from the mean latency, where nobody ever pauses."""
    return found.done_per_s


def _late(found: Simulated) -> float:
    return 1 - found.route("io").within_frac(500.0)
