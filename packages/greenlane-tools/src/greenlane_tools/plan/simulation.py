"""Simulated latencies of a profile under a set-up: the typed face of the native simulator; many cells at once.

The profile is what `Profile.simulated(host).to_json()` gives, or the same as a mapping. Its arrivals may be requests
that came: `{"recorded": [[ms, number of the route, number of its sequence if it is known (or null)], …]}`; then it is
these and no more, whatever `jobs` says.
The set-up is a mapping with these keys; only `host` must be there:

    host                    gevent, threads, permits, asyncio, celery
    queue                   accept (one socket for all), central (HAProxy's)
    processes, cores        1; 0 = as many as wanted
    limit                   requests in progress in a process, 0 = any
    at_once                 central queue: requests that a process gets at once; 0 = by the production's rule
    switch_interval_ms      5: the interpreter's; with permits while none is held. While one is, production's rule says:
                            `interval_ms` of the settings, longer where many want the GIL, and never beyond this
    shed                    true = by the production's rule
    lanes                   [{name, routes, kind, processes, priority}]; kind soft or hard
    upstream_limits         celery: {upstream: calls at once}, a bulkhead over all processes
    placement, pool         {route: "thread" or "process"}; processes for it (1)
    costs                   {switch_us, dispatch_us, front_us} and, of a GIL, {door_releases, request_releases,
                            call_releases}; each 0. How often a thread loses the GIL in a short call, where others
                            wait for it: the one that accepts, for a request; the request's own, before its first line
                            and in a call to an upstream

Rules are the production's, by their defaults. Every set-up meets the very same requests: they depend on the profile
and the seed alone.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Final

from greenlane.errors import PlanError
from greenlane.policy.permits import PermitRule
from greenlane.policy.shed import ShedRule
from greenlane_serve.settings import AtOnceRule, ServeSettings
from greenlane_tools import _native

#: What a request waits for; see `SimulatedRoute.waits_ms`.
CAUSES: Final = ("queue", "cpu", "permit", "upstream", "placed")
#: Requests of a cell by default: p99 at 0.9 of the capacity is then good to about 5 %.
JOBS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SimulatedRoute:
    """Results of one route's requests. Latencies are of those that were done, from arrival."""

    route: str
    done: int
    #: Of these, after their deadline.
    late: int
    #: Refused before they began: they would have been late.
    refused: int
    mean_ms: float
    max_ms: float
    #: CPU of a request, mean.
    cpu_ms: float
    #: Mean wait of a request by `CAUSES`.
    waits_ms: Mapping[str, float]
    #: (middle of the bucket in ns, requests), ascending; a bucket's middle is within 0.4 % of what is in it.
    latency_ns: tuple[tuple[int, int], ...] = field(repr=False)

    @property
    def ended(self) -> int:
        """However."""
        return self.done + self.refused

    @property
    def within_deadline_frac(self) -> float:
        """Part of all that was done in time."""
        return (self.done - self.late) / self.ended if self.ended else math.nan

    def percentile_ms(self, frac: float) -> float:
        """The latency that this part does not exceed; nan when nothing was done."""
        wanted, seen = max(1, math.ceil(self.done * frac)), 0
        for middle_ns, count in self.latency_ns:
            seen += count
            if seen >= wanted:
                return min(middle_ns / 1e6, self.max_ms)
        return math.nan

    def within_frac(self, limit_ms: float) -> float:
        """Part of all that was done within a latency."""
        inside = sum(count for middle_ns, count in self.latency_ns if middle_ns <= limit_ms * 1e6)
        return inside / self.ended if self.ended else math.nan


@dataclass(frozen=True, slots=True)
class Simulated:
    """A run."""

    #: Of simulated time.
    seconds: float
    #: Counted requests that never ended.
    unfinished: int
    #: Requests in progress at the end; thousands = more comes than is served.
    in_progress: int
    #: Mean share of the time in which a process computes under its GIL, and the same by process.
    cpu_frac: float
    process_cpu_frac: tuple[float, ...]
    routes: tuple[SimulatedRoute, ...]

    def route(self, name: str) -> SimulatedRoute:
        """One of its routes; KeyError when there is none."""
        for each in self.routes:
            if each.route == name:
                return each
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class SimulationCell:
    """One of many runs."""

    profile: bytes | Mapping[str, Any]
    set_up: Mapping[str, Any]
    jobs: int = JOBS
    seed: int = 1
    load: float = 1.0


def rules(*, threads: bool = True) -> dict[str, dict[str, Any]]:
    """The production's rules by their defaults, as the simulator takes them."""
    settings = ServeSettings()
    return {
        "permits": dataclasses.asdict(PermitRule.of(settings)),
        "shed": dataclasses.asdict(ShedRule.of()),
        "at_once": dataclasses.asdict(AtOnceRule.of(settings, threads=threads)),
    }


def simulate(
    profile: bytes | Mapping[str, Any],
    set_up: Mapping[str, Any],
    *,
    jobs: int = JOBS,
    seed: int = 1,
    load: float = 1.0,
    tick: Callable[[float], object] | None = None,
) -> Simulated:
    """Simulate `jobs` requests; see the module for both arguments.

    Without the GIL; Ctrl-C ends it within 0.1 s on the main thread.

    Args:
        load: how many times the profile's rates come.
        tick: called with the part that is done every 50 ms or more; what it raises ends the run.

    Raises: PlanError for what cannot be simulated, with its place in profile or set-up.

    Cost: 0.1 to 2 us a request and event.
    """
    threads = set_up.get("host") not in ("asyncio", "gevent")
    whole = {"rules": rules(threads=threads), **set_up}
    text = profile if isinstance(profile, bytes) else json.dumps(profile).encode()
    try:
        found = _native.simulate(text, json.dumps(whole).encode(), jobs, seed, load, tick=tick)
    except ValueError as error:
        name, value, rule = error.args
        raise PlanError(
            "simulate", name=name, value=value, rule=rule, hint="correct the profile or the set-up"
        ) from None
    return _simulated(json.loads(found))


def simulate_cells(
    cells: Sequence[SimulationCell], *, at_once: int = 0, progress: Callable[[float], object] | None = None
) -> list[Simulated]:
    """Simulate many, several at a time: the simulator runs without the GIL, so threads are enough.

    Args:
        at_once: 0 = as many as this process may use cores.
        progress: called on this thread with the part that is done, a few times a second. What it raises, like Ctrl-C,
            stops all runs within 0.1 s.
    """
    parts = [0.0] * len(cells)
    stop = threading.Event()

    def run(number: int) -> Simulated:
        def tick(part: float) -> None:
            parts[number] = part
            if stop.is_set():
                raise _Stopped

        tick(0.0)
        one = cells[number]
        found = simulate(one.profile, one.set_up, jobs=one.jobs, seed=one.seed, load=one.load, tick=tick)
        parts[number] = 1.0
        return found

    total = sum(each.jobs for each in cells) or 1
    with ThreadPoolExecutor(at_once or len(os.sched_getaffinity(0)), "simulate") as pool:
        futures = [pool.submit(run, number) for number in range(len(cells))]
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for each in done:
                    each.result()  # the first that fails ends all
                if progress is not None:
                    progress(sum(part * cell.jobs for part, cell in zip(parts, cells, strict=True)) / total)
        except BaseException:
            stop.set()
            for each in waiting:
                each.cancel()
            raise
    return [each.result() for each in futures]


class _Stopped(Exception):
    """Another cell has failed, or the caller wants no more."""


def _simulated(found: Mapping[str, Any]) -> Simulated:
    return Simulated(
        seconds=found["seconds"],
        unfinished=found["unfinished"],
        in_progress=found["in_progress"],
        cpu_frac=found["cpu_frac"],
        process_cpu_frac=tuple(found["process_cpu_frac"]),
        routes=tuple(_route(each) for each in found["routes"]),
    )


def _route(found: Mapping[str, Any]) -> SimulatedRoute:
    buckets = tuple((middle_ns, count) for middle_ns, count in found["latency_ns"])
    return SimulatedRoute(**{**found, "latency_ns": buckets})
