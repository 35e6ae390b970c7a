"""The load of a run: streams at the addresses of a contender, and phases laid on its schedule.

A phase's rate factor stretches time: the schedule is drawn on an axis on which the rate is constant, and the instants
are then mapped to the clock. Poisson arrivals so become Poisson of that rate in each phase, evenly spaced ones evenly
spaced, and the drawn work and the offered CPU stay what the seed made them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from greenlane_tools.lab.load.plan import Arrivals, Burst, Constant, Plan, Poisson, Recorded, Stream, Work
from greenlane_tools.lab.load.recorded import form_of, recorded, recorded_column, recorded_requests, recorded_routes
from greenlane_tools.lab.load.request_log import refuse
from greenlane_tools.lab.load.schedule import Schedule, schedule
from greenlane_tools.lab.run.rows import Turn
from greenlane_tools.lab.scenario.parts import RequestClass
from greenlane_tools.lab.scenario.scenario import Level, Scenario

Addresses = Callable[[str], str]
_WARM_FRAC = 0.5


def plan_of(scenario: Scenario, turn: Turn, addresses: Addresses, costs_ms: Mapping[str, float]) -> Plan:
    """The load of one run: the same for every contender except the address.

    Args:
        addresses: where a class is served, by its name.
        costs_ms: CPU of one job by class, as calibrated; empty when no class has its rate by a share.
    """
    seed = f"{scenario.seed}/{scenario.name}/{turn.level.label}/{turn.repetition}"
    return Plan(seed, scenario.run_seconds(), streams(scenario, turn.level, addresses, costs_ms))


def warm_up_plan(scenario: Scenario, addresses: Addresses, costs_ms: Mapping[str, float]) -> Plan:
    """A little of the load, not kept; classes that are not drawn by a rate (bursts, replays) are left out."""
    first = scenario.levels()[0]
    level = Level(_WARM_FRAC) if first.utilisation_frac else Level(None, first.rate_factor * _WARM_FRAC)
    drawn = [
        one for one in streams(scenario, level, addresses, costs_ms) if isinstance(one.arrivals, Poisson | Constant)
    ]
    return Plan("warm", scenario.warm_s, tuple(drawn))


def arrivals_of(scenario: Scenario, plan: Plan) -> Schedule:
    """What is sent when: the plan's own schedule, on the axis of the scenario's phases."""
    phases = scenario.stretches()
    if all(one.rate_factor == 1 for one in phases):
        return schedule(plan)
    drawn = schedule(replace(plan, seconds=sum(one.seconds * one.rate_factor for one in phases)))
    ends_s = np.cumsum([0.0, *(one.seconds for one in phases)])
    drawn_s = np.cumsum([0.0, *(one.seconds * one.rate_factor for one in phases)])
    mapped_s = np.interp(drawn.at_ns / 1e9, drawn_s, ends_s)
    return replace(drawn, at_ns=(mapped_s * 1e9).astype(np.int64))


def streams(
    scenario: Scenario, level: Level, addresses: Addresses, costs_ms: Mapping[str, float]
) -> tuple[Stream, ...]:
    """Every class of the scenario at that level."""
    rates = rates_per_s(scenario, costs_ms, level)
    return tuple(
        stream_of(
            one, addresses(one.name), _arrivals(scenario, one, rates.get(one.name, 0.0)), costs_ms.get(one.name, 0.0)
        )
        for one in scenario.classes
    )


def stream_of(one: RequestClass, address: str, arrivals: Arrivals, cost_ms: float) -> Stream:
    """A class as the generator sends it."""
    work = Work(one.work_mean_ms, one.work_cv, one.work_parameter) if one.work_mean_ms else None
    return Stream(
        name=one.name, address=address, arrivals=arrivals, path=one.path, method=one.method,
        headers=dict(one.headers), body=one.body.encode(), connections=one.connections,  # type: ignore[arg-type]
        most_connections=one.most_connections, timeout_s=one.timeout_s, cost_ms=cost_ms, work=work,
    )  # fmt: skip


def _arrivals(scenario: Scenario, one: RequestClass, per_s: float) -> Arrivals:
    if one.arrivals == "burst":
        return Burst(one.burst_size, one.burst_every_s)
    if one.arrivals == "recorded":
        return replayed(scenario, one)
    return Constant(per_s) if one.arrivals == "constant" else Poisson(per_s)


# --- How many requests per second of each class make a given share of one core.
#
# rate of a class = utilisation × its share of the CPU ÷ CPU of one of its jobs
# = utilisation × its share of the requests ÷ mean CPU of a request, over all classes
#
# The same rates go to every contender: one that needs more CPU for a job is busier at the same load, and that counts
# against it.


def rates_per_s(scenario: Scenario, costs_ms: Mapping[str, float], level: Level) -> dict[str, float]:
    """Requests per second by class, at that level and the phase factor 1; classes without a rate are left out.

    Args:
        costs_ms: CPU of one job by class; of those with a share.
    """
    mean_ms = sum(one.request_share_frac * costs_ms[one.name] for one in scenario.classes if one.request_share_frac)
    found = {}
    for one in scenario.classes:
        if one.cpu_share_frac:
            found[one.name] = (level.utilisation_frac or 0) * one.cpu_share_frac * 1000 / costs_ms[one.name]
        elif one.request_share_frac:
            found[one.name] = (level.utilisation_frac or 0) * one.request_share_frac * 1000 / mean_ms
        elif one.rate_per_s:
            found[one.name] = one.rate_per_s * level.rate_factor
    return found


# --- Recorded arrivals of a class: of a recording's route, of a table's column, or of what another program logged.


def replayed(scenario: Scenario, one: RequestClass) -> Recorded:
    """The instants of its file, which is read once.

    Raises:
        RecordingError, SettingsError: the file cannot be read, or has no such route or column.
    """
    path = scenario.folder / one.recorded
    how = (one.recorded_route, one.recorded_column, one.recorded_unit, one.recorded_format)
    try:
        state = path.stat()
        return _replayed(path, state.st_mtime_ns, state.st_size, *how)
    except OSError as error:
        raise refuse(path, error.strerror or str(error)) from None


@lru_cache(maxsize=64)
def _replayed(path: Path, _mtime_ns: int, _bytes: int, route: str, column: str, unit: Any, log_format: str) -> Recorded:
    form = form_of(path)
    if form == "table":
        return recorded_column(path, column, unit=unit, where=("endpoint", route) if route else None)
    if form == "log":
        return recorded_requests(path, route=route, log_format=log_format)
    if route:
        return recorded(path, route)
    return Recorded(tuple(sorted(at_ns for found in recorded_routes(path).values() for at_ns in found.at_ns)))
