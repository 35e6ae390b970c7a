"""How a service stands by its profile alone: knee, how full its CPU is, and how far the cliff.

Formulas, N requests in progress in one process, C = CPU per request that needs the GIL or the loop, S = the rest:

    knee        1 + S/C: so many requests fill the CPU if none ever waits; with variance 1.6 to 1.7 times as many
    busy        sum over routes of rate * C, by process: its share of the one core that the GIL or the loop allows
    headroom    1 / busy: at so many times this load the CPU is full, above it nothing holds; percentiles rise before
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from greenlane_tools.plan.profile import LOOPS, Profile, Route

__all__ = ["RouteStanding", "ServiceStanding", "standing_of"]


@dataclass(frozen=True)
class RouteStanding:
    """One route."""

    route: str
    rate_per_s: float
    #: C, with its part of the overhead, and S.
    cpu_ms: float
    rest_ms: float
    #: None = it uses no CPU.
    knee: float | None
    #: Of the CPU that the requests use; 0 to 1.
    cpu_frac: float
    #: Times its present rate at which the CPU is full if nothing else changes. None = it uses no CPU.
    headroom: float | None


@dataclass(frozen=True)
class ServiceStanding:
    """All of them."""

    routes: Sequence[RouteStanding]
    #: Of the mix of all routes.
    knee: float | None
    #: Share of one core that each process needs, if requests are spread evenly; above 1 = more than there is.
    busy_frac: float
    #: Share of the machine's cores that all need, with what runs without the GIL.
    cores_frac: float
    #: Times the present load. None = no CPU is used.
    headroom: float | None

    @property
    def bound(self) -> str:
        """What is full first: "process" or "cores"."""
        return "process" if self.busy_frac >= self.cores_frac else "cores"


def standing_of(profile: Profile) -> ServiceStanding:
    """How it stands, at its own rates."""
    costs = [_costs(route, profile) for route in profile.routes]
    rates = [route.rate_per_s for route in profile.routes]
    locked = math.fsum(rate * cost[0] for rate, cost in zip(rates, costs, strict=True)) / 1000
    cores = math.fsum(rate * (cost[0] + cost[2]) for rate, cost in zip(rates, costs, strict=True)) / 1000
    rest = math.fsum(rate * cost[1] for rate, cost in zip(rates, costs, strict=True)) / 1000
    busy_frac, cores_frac = locked / profile.processes, cores / profile.cores
    full = max(busy_frac, cores_frac)
    routes = [
        RouteStanding(
            route=route.route,
            rate_per_s=route.rate_per_s,
            cpu_ms=cost[0],
            rest_ms=cost[1],
            knee=_knee(cost[0], cost[1]),
            cpu_frac=route.rate_per_s * cost[0] / 1000 / locked if locked else 0.0,
            headroom=_alone(route.rate_per_s * cost[0] / 1000, locked, profile.processes),
        )
        for route, cost in zip(profile.routes, costs, strict=True)
    ]
    return ServiceStanding(routes, _knee(locked, rest), busy_frac, cores_frac, 1 / full if full else None)


def _costs(route: Route, profile: Profile) -> tuple[float, float, float]:
    """C, S and, as a part of S, CPU without the GIL; ms."""
    mean = route.demand
    held = profile.host in LOOPS
    cpu_ms = mean.cpu_ms + profile.overhead_ms + (mean.held_ms if held else 0.0)
    return cpu_ms, mean.io_ms + mean.free_ms + (0.0 if held else mean.held_ms), mean.free_ms


def _knee(cpu_ms: float, rest_ms: float) -> float | None:
    return 1 + rest_ms / cpu_ms if cpu_ms else None


def _alone(own: float, all_: float, processes: int) -> float | None:
    return 1 + (processes - all_) / own if own else None
