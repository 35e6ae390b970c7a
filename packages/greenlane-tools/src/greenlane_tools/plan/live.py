"""A profile from a running service: its `/metrics`, or the control sockets of its processes. Means only.

Counters know how many requests came and how much CPU, I/O and waiting they had together, not how one request differs
from the next, nor where in it its I/O stands: each route becomes one sequence. Where CPU bursts are learned (permits in
`on` or `observe`) it has their phases, and what of them runs without the GIL. For percentiles record instead.
"""

from __future__ import annotations

import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from greenlane.control import ask, processes
from greenlane.errors import PlanError
from greenlane_tools.plan.measured import Measured, bucket_of
from greenlane_tools.plan.profile import Arrivals, Profile, Route
from greenlane_tools.plan.steps import Sequence as Sampled
from greenlane_tools.plan.steps import Step, joined

__all__ = ["profile_of_control", "profile_of_metrics", "scraped"]

_ATTEMPT: Final = "read live metrics"
_PATIENCE_S: Final = 10.0
_MOST_BYTES: Final = 64 << 20
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_MEANS: Final = "Made from live metrics: means only. How requests differ, and so percentiles, needs a recording."


@dataclass
class _Sums:
    """Of one route, since its processes began or between two looks."""

    requests: float = 0.0
    latency_ms: float = 0.0
    cpu_ms: float = 0.0
    io_ms: float = 0.0
    #: By upper bound of a bucket, ms: requests in it.
    buckets: dict[float, float] = field(default_factory=dict)

    def less(self, before: _Sums) -> _Sums:
        """What came since."""
        return _Sums(
            self.requests - before.requests,
            self.latency_ms - before.latency_ms,
            self.cpu_ms - before.cpu_ms,
            self.io_ms - before.io_ms,
            {bound: count - before.buckets.get(bound, 0.0) for bound, count in self.buckets.items()},
        )


@dataclass
class _Phases:
    """What is learned of one route's phases: expected burst and the share without the GIL, by phase."""

    burst_ms: dict[int, float] = field(default_factory=dict)
    free_frac: dict[int, float] = field(default_factory=dict)


@dataclass
class _Look:
    """One reading of all processes."""

    at_s: float
    routes: dict[str, _Sums]
    phases: dict[str, _Phases]
    processes: int


def scraped(address: str) -> str:
    """What a scrape of an address gives.

    Raises: PlanError when nobody answers there, or not with metrics.
    """
    if urlsplit(address).scheme not in ("http", "https"):
        raise PlanError(_ATTEMPT, name="address", value=address, rule="http://HOST:PORT/PATH")
    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:
            return str(answer.read(_MOST_BYTES).decode("utf-8", "replace"))
    except (OSError, urllib.error.URLError, ValueError) as error:
        rule = f"an address that answers with metrics ({error})"
        hint = 'set metrics_path = "/metrics", and give its whole address'
        raise PlanError(_ATTEMPT, name="address", value=address, rule=rule, hint=hint) from None


def profile_of_metrics(
    address: str, seconds: float, *, scrape: Callable[[str], str] = scraped, pause: Callable[[float], None] = time.sleep
) -> Profile:
    """Two scrapes, so many seconds apart: rates and means are of what came between them.

    Args:
        address: of a page in Prometheus' text format; of one process, or of `greenlane serve` for all its workers.

    Raises: PlanError when no request came, or no route is counted there.
    """
    before = _read(scrape(address), time.monotonic())
    pause(seconds)
    after = _read(scrape(address), time.monotonic())
    return _between(before, after, urlsplit(address).netloc, address)


def profile_of_control(folder: Path, seconds: float, *, pause: Callable[[float], None] = time.sleep) -> Profile:
    """The same from the control sockets of a folder (`control_dir`): all processes that record.

    Raises: ControlError when none can be reached, PlanError as above.
    """
    before = _asked(folder)
    pause(seconds)
    after = _asked(folder)
    return _between(before, after, "", str(folder))


def _between(before: _Look, after: _Look, name: str, where: str) -> Profile:
    seconds = max(1e-3, after.at_s - before.at_s)
    found = []
    measured = {}
    for route, sums in after.routes.items():
        came = sums.less(before.routes.get(route, _Sums()))
        if came.requests < 0 or came.cpu_ms < -1e-6:
            raise _none(where, "counters that only grow", "a process was restarted meanwhile: do it again")
        if came.requests < 1:
            continue
        found.append(_route(route, came, after.phases.get(route, _Phases()), seconds))
        if came.buckets:
            measured[route] = _latencies(came)
    if not found:
        rule = f"requests of recorded routes within {seconds:.3g} s"
        raise _none(where, rule, "look while there is load, longer (--seconds), at a service that records")
    return Profile(
        name=name,
        source="live",
        seconds=round(seconds, 3),
        host="permits" if after.phases else "threads",
        processes=max(1, after.processes),
        cores=max(1, after.processes),
        arrivals=Arrivals(math.fsum(route.rate_per_s for route in found)),
        routes=tuple(sorted(found, key=lambda each: (-each.rate_per_s, each.route))),
        measured=measured,
        notes=(
            _MEANS,
            "What runs the requests and how many cores there are is not told by metrics: assumed are threads"
            f"{' with permits' if after.phases else ''} and a core a process. Correct host and cores in the file.",
        ),
    )


def _route(name: str, came: _Sums, phases: _Phases, seconds: float) -> Route:
    cpu_ms, io_ms = came.cpu_ms / came.requests, came.io_ms / came.requests
    return Route(
        route=name,
        rate_per_s=came.requests / seconds,
        sequences=(Sampled(weight=came.requests, steps=_steps(cpu_ms, io_ms, phases), priority=came.requests),),
        requests=round(came.requests),
    )


def _steps(cpu_ms: float, io_ms: float, phases: _Phases) -> tuple[Step, ...]:
    """CPU by what is learned of its phases, I/O in equal parts between them; without any: half, I/O, half."""
    bursts = dict(sorted(phases.burst_ms.items())) or {0: 1.0, 1: 1.0}
    total = math.fsum(bursts.values()) or 1.0
    cpu: list[tuple[Step, ...]] = []
    for phase, burst_ms in bursts.items():
        ms, free_frac = cpu_ms * burst_ms / total, phases.free_frac.get(phase, 0.0)
        cpu.append((Step("cpu", ms * (1 - free_frac)), Step("free", ms * free_frac)))
    pauses = max(1, len(cpu) - 1)
    waits = [Step("io", io_ms / pauses)] * pauses if io_ms else []
    parts = [part for burst, wait in zip_longest(cpu, waits) for part in (*(burst or ()), *([wait] if wait else []))]
    found = joined(Step(step.kind, round(step.ms, 5)) for step in parts if step.ms > 0)
    return found or (Step("cpu", 0.001),)


def _latencies(came: _Sums) -> Measured:
    """Buckets of other bounds, each put where its middle is: good to half the width that it had."""
    counts: dict[int, int] = {}
    low_ms = 0.0
    for bound_ms, count in sorted(came.buckets.items()):
        if count >= 1:
            middle = low_ms * 1.5 if math.isinf(bound_ms) else math.sqrt(max(low_ms, bound_ms / 2) * bound_ms)
            bucket = bucket_of(middle)
            counts[bucket] = counts.get(bucket, 0) + round(count)
        low_ms = bound_ms
    return Measured(dict(sorted(counts.items())), came.latency_ms)


def _read(text: str, at_s: float) -> _Look:
    """One scrape. Samples of several processes add up."""
    look = _Look(at_s, {}, {}, 0)
    pids: set[str] = set()
    cumulated: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for name, labels, value in _samples(text):
        route = labels.get("route", "")
        if name == "greenlane_job_latency_seconds_count":
            _sums(look, route).requests += value
        elif name == "greenlane_job_latency_seconds_sum":
            _sums(look, route).latency_ms += value * 1000
        elif name == "greenlane_job_latency_seconds_bucket":
            series = (route, " ".join(f"{key}={labels[key]}" for key in sorted(labels) if key != "le"))
            cumulated.setdefault(series, []).append((float(labels["le"]) * 1000, value))
        elif name == "greenlane_job_time_seconds_total" and labels.get("part") in ("cpu", "io"):
            sums = _sums(look, route)
            if labels["part"] == "cpu":
                sums.cpu_ms += value * 1000
            else:
                sums.io_ms += value * 1000
        elif name == "greenlane_learned_burst_seconds":
            look.phases.setdefault(route, _Phases()).burst_ms[int(labels.get("phase", 0))] = value * 1000
        elif name == "greenlane_learned_released_ratio":
            look.phases.setdefault(route, _Phases()).free_frac[int(labels.get("phase", 0))] = value
        elif name == "greenlane_recording":
            pids.add(" ".join(f"{key}={labels[key]}" for key in sorted(labels)))
    for (route, _), bounds in cumulated.items():
        _add_buckets(_sums(look, route).buckets, bounds)
    look.processes = len(pids)
    return look


def _add_buckets(into: dict[float, float], bounds: Iterable[tuple[float, float]]) -> None:
    below = 0.0
    for bound_ms, count in sorted(bounds):
        into[bound_ms] = into.get(bound_ms, 0.0) + count - below
        below = count


def _samples(text: str) -> Iterable[tuple[str, Mapping[str, str], float]]:
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found:
            labels = {key: _plain(value) for key, value in _LABEL.findall(found[2] or "")}
            try:
                yield found[1], labels, float(found[3])
            except ValueError:
                continue


def _plain(value: str) -> str:
    return value.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


def _sums(look: _Look, route: str) -> _Sums:
    return look.routes.setdefault(route, _Sums())


def _asked(folder: Path) -> _Look:
    """One reading of all control sockets. Processes that do not record have no routes."""
    answers: list[Mapping[str, Any]] = [ask(each.socket, {"do": "show"}) for each in processes(folder)]
    look = _Look(time.monotonic(), {}, {}, 0)
    for answer in answers:
        record = answer.get("record")
        if not isinstance(record, dict):
            continue
        look.processes += 1
        for row in record["routes"]:
            sums = _sums(look, str(row["route"]))
            sums.requests += row["jobs"]
            sums.latency_ms += row["mean_ms"] * row["jobs"]
            sums.cpu_ms += row["cpu_ms"]
            sums.io_ms += row["io_ms"]
        _learn(look, answer.get("learned", ()))
    return look


def _learn(look: _Look, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        if "placement" not in row and row.get("expected_ms") is not None:
            phases = look.phases.setdefault(str(row["route"]), _Phases())
            phases.burst_ms[int(row["phase"])] = float(row["expected_ms"])
            phases.free_frac[int(row["phase"])] = float(row.get("released_frac") or 0.0)


def _none(where: str, rule: str, hint: str) -> PlanError:
    return PlanError(_ATTEMPT, name="source", value=where, rule=rule, hint=hint)
