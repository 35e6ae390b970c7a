"""The most that a variant does: answers a second when it is never idle, and while 95 of 100 come within 500 ms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from greenlane_tools.lab.environment import usable_cores
from greenlane_tools.lab.statistics import quantile

from .loaded import DEADLINE_MS, Json, Told, loaded, rush, sent
from .subject import Subject

#: Requests in the service at a time when it shall never be idle: this many times what would just do if their CPU and
#: their waits took turns perfectly, between two bounds. More would only be memory.
_SPARE: Final = 3
_LEAST_AT_ONCE, _MOST_AT_ONCE = 8, 64
_RUSH_S, _MOST_REQUESTS = 3.0, 1_000
#: Halvings of [0, 1.1 of the capacity]: known to 3 % of it.
_PROBES: Final = 5
#: A percentile of fewer requests says nothing.
_LEAST_REQUESTS: Final = 40
#: So much of what there is counts as used up.
_USED_UP: Final = 0.85


def capacity(subject: Subject, users: Sequence[int], costs: Json, seed: str, told: Told) -> Json:
    """Answers a second when there are always some requests in the service.

    Args:
        costs: of a request alone, from `alone.costs`: say how many are enough.
    """
    wanted = math.ceil(_SPARE * costs["wall_ms"] / max(costs["cpu_ms"], 0.1))
    at_once = min(_MOST_AT_ONCE, max(_LEAST_AT_ONCE, wanted))
    count = round(min(_MOST_REQUESTS, max(2 * at_once, _RUSH_S * 1e3 / max(costs["cpu_ms"], 0.1))))
    plan = rush(subject.address, users, count, at_once, seed)
    found = sent(subject, plan, told, f"{subject.variant}, {count} requests in a rush")
    return {**found, "per_s": len(found["latency_ms"]) / found["done_s"]}


def most(
    subject: Subject, users: Sequence[int], rush: Json, seconds: tuple[float, float], seed: str, told: Told
) -> Json:
    """The highest rate, to 3 % of the capacity, at which p95 is within the deadline.

    Args:
        rush: what `capacity` gave.
        seconds: of one probe, at least and at most.

    Returns:
        max_per_s (0 = not even one request at a time is), bounded_by in words, and every probe.
    """
    low, high = 0.0, 1.1 * rush["per_s"]
    probes: list[Json] = []
    if not high:
        return {"max_per_s": 0.0, "bounded_by": "errors only", "probes": probes}
    for number in range(_PROBES):
        rate = (low + high) / 2
        lasting_s = min(seconds[1], max(seconds[0], _LEAST_REQUESTS / rate))
        probe = loaded(subject, users, rate, lasting_s, f"{seed}/{number}", told)
        p95_ms = _p95_ms(probe)
        fits = p95_ms <= DEADLINE_MS
        low, high = (rate, high) if fits else (low, rate)
        probes.append({"per_s": rate, "p95_ms": p95_ms, "fits": fits, "bound": bound(probe)})
    failed = [probe for probe in probes if not probe["fits"]]
    # At the lowest rate that no longer fits, something is used up.
    words = min(failed, key=lambda probe: float(probe["per_s"]))["bound"] if failed else bound(rush)
    return {"max_per_s": low, "bounded_by": words, "probes": probes}


def bound(run: Mapping[str, Any]) -> str:
    """What a run had used up, in words."""
    usage, cores = run["usage"], usable_cores()
    wall_ms = usage["seconds"] * 1e3
    loop, workers, machine = (usage[name] / wall_ms for name in ("main_ms", "workers_ms", "machine_ms"))
    there = run["processes"] - 1
    said = f"its loop {loop:.2f} of a core"
    if there and workers:
        said += f", {there} workers {workers:.2f}"
    said += f", all on the machine {machine:.2f} of {cores} cores"
    if loop >= _USED_UP:
        return f"its loop ({said})"
    if there and workers / min(there, cores) >= _USED_UP:
        return f"its workers ({said})"
    if machine / cores >= _USED_UP:
        return f"the machine's cores ({said})"
    return f"the length of single requests ({said})"


def _p95_ms(run: Json) -> float:
    """An error, or no answer, is later than anything."""
    latencies = sorted(run["latency_ms"]) + [float("inf")] * run["errors"]
    return quantile(latencies, 0.95) if latencies else float("inf")
