"""A service whose requests compute beside an event loop: what is asked of `greenlane_tools.plan.decision`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from greenlane.errors import PlanError
from greenlane_tools.plan import formulas
from greenlane_tools.plan.answer import Answer, Given
from greenlane_tools.plan.answers import work_of
from greenlane_tools.plan.costs import JSON, NATIVE, Transport
from greenlane_tools.plan.profile import Profile

__all__ = ["Case", "case_of", "gbit_per_s"]


@dataclass(frozen=True, slots=True)
class Case:
    """A service whose requests compute and wait.

    Args:
        rate_per_s: of requests, all machines together.
        cpu_ms: of a request on its loop, all of it.
        heavy_ms: of that, the part that could go elsewhere: features and a model, an image, a report.
        io_ms: of a request until replies are there, calls that run at the same time counted once.
        io_groups: how often it waits: each time it comes back it needs the loop.
        moved_mb: that the heavy part needs, as JSON.
        result_mb: that it gives.
        machines: that share the rate.
        processes: loops on each of them.
        cores: of each of them.
        workers: processes of a pool for each loop.
        objects: whether what moves are Python objects (dicts, lists), or buffers (bytes, arrays).
        cv2: variance of a burst over its mean's square.
        link_gbit_per_s: of a machine.
        round_trip_ms: to another machine.
        native: how many times less CPU the heavy part takes in native code.
        encoding: of a service of its own.
        cap_ms: mean latency that must be kept; None = the least that can be had.
    """

    rate_per_s: float
    cpu_ms: float
    heavy_ms: float
    io_ms: float
    io_groups: int = 1
    moved_mb: float = 0.0
    result_mb: float = 0.0
    machines: int = 1
    processes: int = 1
    cores: int = 4
    workers: int = 3
    objects: bool = True
    cv2: float = 0.5
    link_gbit_per_s: float = 10.0
    round_trip_ms: float = 0.5
    native: float = NATIVE.value
    encoding: Transport = JSON
    cap_ms: float | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be: PlanError that names the field."""
        for name in ("rate_per_s", "link_gbit_per_s", "native"):
            _check(name, getattr(self, name), getattr(self, name) > 0, "a finite number above 0")
        for name in ("cpu_ms", "heavy_ms", "io_ms", "moved_mb", "result_mb", "cv2", "round_trip_ms"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "a finite number of at least 0")
        for name in ("machines", "processes", "cores", "workers"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "a whole number of at least 1")
        _check("io_groups", self.io_groups, self.io_groups >= 0, "a whole number of at least 0")
        _check("heavy_ms", self.heavy_ms, self.heavy_ms <= self.cpu_ms, f"a part of cpu_ms={self.cpu_ms:g}")
        if self.cap_ms is not None:
            _check("cap_ms", self.cap_ms, self.cap_ms > 0, "a finite number above 0")

    @property
    def light_ms(self) -> float:
        """CPU that stays on the loop whatever is done."""
        return self.cpu_ms - self.heavy_ms

    @property
    def loop_per_s(self) -> float:
        """Requests of one loop."""
        return self.rate_per_s / (self.machines * self.processes)


def gbit_per_s(rate_per_s: float, megabytes: float) -> Answer:
    """What must go over a network: requests a second times MB (1e6 bytes) each."""
    _check("rate_per_s", rate_per_s, rate_per_s >= 0, "a finite number of at least 0")
    _check("megabytes", megabytes, megabytes >= 0, "a finite number of at least 0")
    given = (Given("λ", rate_per_s, "per_s"), Given("B", megabytes, "mb"))
    return Answer(rate_per_s * megabytes * 8 / 1000, "gbit_per_s", formulas.TRANSFER, given)


def case_of(profile: Profile, route: str | None = None) -> Case:
    """All requests as they are mixed, or one route's; the heavy part is a request's longest stretch of CPU.

    What a profile does not know is what a request's body has: how much the heavy part needs. It is taken to be what
    comes in with the request, if that is known, and nothing else.

    Raises: PlanError for a route that it has not.
    """
    work = work_of(profile, route)
    chosen = profile.routes if route is None else (profile.route(route),)
    rate_per_s = sum(each.rate_per_s for each in chosen)
    known = [each for each in chosen if each.bytes_in is not None]
    rates = sum(each.rate_per_s for each in known)
    moved = sum(each.rate_per_s * (each.bytes_in or 0.0) for each in known) / rates if rates else 0.0
    return Case(
        rate_per_s=rate_per_s,
        cpu_ms=work.cpu_ms,
        heavy_ms=min(work.longest_ms, work.cpu_ms),
        io_ms=work.io_ms,
        io_groups=round(work.waits),
        moved_mb=moved / 1e6,
        processes=profile.processes,
        cores=profile.cores,
        cv2=work.cv2,
    )


def _check(name: str, value: float, holds: bool, rule: str) -> None:
    if not (holds and math.isfinite(value)):
        raise PlanError("decide where work runs", name=name, value=value, rule=rule)
