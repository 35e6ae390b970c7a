"""A profile from a recording.

Of each route 256 requests are kept, by priority sampling: a request gets the priority `emphasis / u`, u uniform in
(0, 1) and fixed by its name; the highest are kept. With the largest priority that was dropped as `threshold`, a kept
one stands for `max(1, threshold / emphasis)` requests: in the mean exactly its share. Emphasis follows a request's CPU
and I/O, so that the tail, which decides percentiles, is in the sample often, each standing for few.

Source: N. Duffield, C. Lund, M. Thorup, Priority sampling for estimation of arbitrary subset sums, JACM 54 (2007).
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.page.quantities import amount, count, share
from greenlane_tools.plan.profile import LOOPS, Arrivals, Measured, Profile
from greenlane_tools.plan.recorded_host import (
    core_speed,
    host_of,
    off_s,
    overhead_ms,
    seen_s,
    slots_of,
    spread,
    unlocked_fracs,
)
from greenlane_tools.plan.recorded_steps import Life, Upstreams, shortened, steps_of
from greenlane_tools.plan.route import Kind, Mean, Route, Step
from greenlane_tools.plan.route import Sequence as Sampled
from greenlane_tools.reader.rows import Job
from greenlane_tools.report.subject import RecordedRows
from greenlane_tools.report.uncut import interval_ns
from greenlane_tools.report.workers import Load, balance_of, load_of

#: Sequences of a route that are kept. With 256 the p99 of one phase still rests on several.
_MOST_SEQUENCES: Final = 256
#: A request is sampled at most this much more, or less, eagerly than the mean one. Arbitrary.
_MOST_EMPHASIS: Final = 20.0
_LEAST_EMPHASIS: Final = 0.5
#: Routes beyond this, those with the fewest requests, become one.
_MOST_ROUTES: Final = 200
_OTHERS: Final = "(other)"
#: Shares of the requests' time that the plan leaves out and that are worth a sentence.
_WORTH_FRAC: Final = 0.05
#: Of a request whose recording shows neither CPU nor I/O.
_NOTHING: Final = (Step("cpu", 0.001),)
#: The recorder's own notes that are kept.
_MOST_NOTES: Final = 20
#: Routes that a note names.
_NAMED: Final = 3


def profile_of_recording(recording: RecordedRows, name: str = "", *, skip_s: float = 0.0) -> Profile:
    """What the recorded requests did, how they came, on what they ran.

    Args:
        skip_s: leave out what arrived within this many seconds of the first request: a warm-up.

    Raises: PlanError when no request ended.

    Cost: about 3 s for 100,000 jobs, most of it for what `study_of` does too.
    """
    jobs = _after(recording.jobs, skip_s)
    if not jobs:
        hint = "record while the service has its usual load, for minutes"
        raise _error("requests", 0, "a recording in which at least one request ended", hint)
    host = host_of(recording.processes, jobs)
    seconds = round(seen_s(jobs, off_s(recording.marks, jobs)), 3)
    workers = balance_of(recording.processes, jobs, recording.samples).workers
    processes = max(1, len(workers))
    load = load_of(jobs)
    upstreams = Upstreams(recording.calls, recording.held)
    by_route = _by_route(jobs)
    unlocked = unlocked_fracs(recording.looks, by_route) if host in LOOPS else {}
    made = (_Sampling(recording, route, of, upstreams, host).made(seconds) for route, of in by_route.items())
    found = [replace(each, unlocked_frac=unlocked.get(each.route)) for each in made]
    overhead = overhead_ms(recording, jobs)
    first_ns, last_ns = min(job.arrival_ns for job in jobs), max(job.end_ns for job in jobs)
    loop_us, loop_spread = core_speed(recording.samples, first_ns, last_ns)
    return Profile(
        name=name,
        source="recording",
        seconds=seconds,
        host=host,
        processes=processes,
        cores=_cores(recording, processes),
        slots=slots_of(recording.processes, host),
        switch_interval_ms=interval_ns(recording.processes) / 1e6 if _tells(recording, "interval_ms") else None,
        overhead_ms=round(overhead or 0.0, 5),
        loop_us=loop_us,
        loop_spread=loop_spread,
        arrivals=Arrivals(
            rate_per_s=math.fsum(route.rate_per_s for route in found),
            dispersion=spread([job.arrival_ns for job in jobs]),
        ),
        routes=tuple(sorted(found, key=lambda route: (-route.rate_per_s, route.route))),
        measured={route: _measured(of) for route, of in by_route.items()},
        notes=(
            *_benchmark(load, found),
            *_left_out(jobs, overhead, len(recording.unfinished)),
            *(_locked(found) if host in LOOPS else ()),
            *list(recording.notes)[:_MOST_NOTES],
        ),
    )


def _after(jobs: Sequence[Job], skip_s: float) -> list[Job]:
    first_ns = min((job.arrival_ns for job in jobs), default=0)
    return [job for job in jobs if job.arrival_ns >= first_ns + skip_s * 1e9]


class _Sampling:
    """One route: which of its requests are kept, and what they did."""

    def __init__(
        self, recording: RecordedRows, route: str, jobs: Sequence[Job], upstreams: Upstreams, host: str
    ) -> None:
        self._on_loop = host in LOOPS
        self._recording, self._route, self._jobs = recording, route, jobs
        self._upstreams = upstreams
        self._cpu_ms = math.fsum(job.cpu_ns for job in jobs) / len(jobs) / 1e6
        self._io_ms = math.fsum(_io_ns(job) for job in jobs) / len(jobs) / 1e6

    def made(self, seconds: float) -> Route:
        """The route. Rates are its requests by the time that was recorded."""
        chosen, threshold = kept(
            [(job.cpu_ns / 1e6, _io_ns(job) / 1e6, f"{job.process} {job.job} {job.arrival_ns}") for job in self._jobs]
        )
        jobs = [self._jobs[number] for number, _ in chosen]
        lives: dict[tuple[int, int], Life] = {
            (job.process, job.job): self._recording.segments(job.process, job.job) for job in jobs
        }
        lives = shortened(lives) if self._on_loop else lives
        names = self._upstreams.of_route(self._route, lives, len(chosen) / len(self._jobs))
        sequences = tuple(
            Sampled(weight, steps_of(life, names.named(who)) or _NOTHING)
            for (_, weight), (who, life) in zip(chosen, lives.items(), strict=True)
        )
        return Route(
            route=self._route,
            rate_per_s=len(self._jobs) / seconds,
            sequences=sequences,
            upstreams=names.names,
            deadline_ms=_deadline_ms(self._jobs),
            requests=len(self._jobs),
            mean=self._mean(sequences, jobs),
            threshold=threshold,
        )

    def _mean(self, sequences: Sequence[Sampled], jobs: Sequence[Job]) -> Mean:
        """Exact sums over all jobs, by the proportions of the sampled ones."""
        cpu_ms = math.fsum(each.weight * job.cpu_ns for each, job in zip(sequences, jobs, strict=True)) / 1e6
        io_ms = math.fsum(each.weight * _io_ns(job) for each, job in zip(sequences, jobs, strict=True)) / 1e6
        total = math.fsum(each.weight for each in sequences)
        by_cpu = self._cpu_ms / cpu_ms if cpu_ms else 1 / total
        by_io = self._io_ms / io_ms if io_ms else 1 / total

        def mean(kind: Kind, by: float) -> float:
            return round(by * math.fsum(each.weight * each.ms(kind) for each in sequences), 5)

        return Mean(
            cpu_ms=mean("cpu", by_cpu),
            free_ms=mean("free", by_cpu),
            io_ms=mean("io", by_io),
            held_ms=mean("held", by_io),
        )


def _by_route(jobs: Iterable[Job]) -> Mapping[str, list[Job]]:
    counts = Counter(job.route for job in jobs)
    most = _MOST_ROUTES if len(counts) <= _MOST_ROUTES else _MOST_ROUTES - 1
    named = {route for route, _ in counts.most_common(most)}
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.route if job.route in named else _OTHERS, []).append(job)
    return found


def kept(
    requests: Sequence[tuple[float, float, str]], most: int = _MOST_SEQUENCES
) -> tuple[list[tuple[int, float]], float]:
    """The sample, as (index, weight), and its threshold; 0 = it is all of them.

    Args:
        requests: CPU and I/O of each, ms, and a name of its own.
    """
    cpu_ms = math.fsum(cpu for cpu, _, _ in requests) / len(requests)
    io_ms = math.fsum(io for _, io, _ in requests) / len(requests)
    found = []
    for number, (cpu, io, name) in enumerate(requests):
        most_times = max(cpu / cpu_ms if cpu_ms > 0 else 1.0, io / io_ms if io_ms > 0 else 1.0)
        emphasis = round(min(_MOST_EMPHASIS, max(_LEAST_EMPHASIS, most_times)), 3)
        drawn = int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        # To six digits, which tell all apart.
        found.append((float(f"{emphasis * 2**64 / (drawn + 1):.6g}"), number, emphasis))
    found.sort(key=lambda each: -each[0])
    threshold = found[most][0] if len(found) > most else 0.0
    return [(number, max(1.0, threshold / emphasis)) for _, number, emphasis in found[:most]], threshold


def _io_ns(job: Job) -> int:
    return sum(job.io_ns.values())


def _deadline_ms(jobs: Iterable[Job]) -> float | None:
    found = [(job.deadline_ns - job.arrival_ns) / 1e6 for job in jobs if job.deadline_ns > job.arrival_ns]
    return round(median(found), 3) if found else None


def _measured(jobs: Sequence[Job]) -> Measured:
    return Measured.of(job.latency_ns / 1e6 for job in jobs)


def _tells(recording: RecordedRows, name: str) -> bool:
    return any(name in process.about for process in recording.processes)


def _cores(recording: RecordedRows, processes: int) -> int:
    told = [process.about.get("cores") for process in recording.processes]
    return max((each for each in told if isinstance(each, int) and each > 0), default=processes)


def _benchmark(load: Load, routes: Sequence[Route]) -> list[str]:
    """What a benchmark's clients would wait for is asked anyway."""
    if not load.closed:
        return []
    per_s = amount(math.fsum(route.rate_per_s for route in routes))
    said = f"The load was a closed loop of {load.most_in_progress} clients; it is taken for {per_s} requests a second "
    return [f"{said}that arrive independently, as from many users."]


def _left_out(jobs: Sequence[Job], overhead: float | None, unfinished: int) -> list[str]:
    """What a plan from this cannot know, where it is much."""
    latency_ns = max(1, sum(job.latency_ns for job in jobs))
    shares = {
        "for a core, because of other load on the machine: a plan does not model that": _waited(jobs, "os"),
        "in calls that no probe sees: a plan ignores them": _waited(jobs, "blocked"),
        "for locks, pools and threads of the application: a plan does not model those waits": (
            _waited(jobs, "lock") + _waited(jobs, "pool") + _waited(jobs, "queue")
        ),
    }
    said = [
        f"{share(ns / latency_ns)} of the requests' time was waiting {what}."
        for what, ns in shares.items()
        if ns > _WORTH_FRAC * latency_ns
    ]
    io_ns = sum(map(_io_ns, jobs))
    doubtful_ns = sum(job.uncertain_ns for job in jobs)
    if io_ns and doubtful_ns > _WORTH_FRAC * io_ns:
        doubtful = share(doubtful_ns / io_ns)
        said.append(f"Up to {doubtful} of the I/O may have been waiting: latencies are rather less than predicted.")
    residual_ns = sum(job.residual_ns for job in jobs)
    if residual_ns > _WORTH_FRAC * latency_ns:
        said.append(f"{share(residual_ns / latency_ns)} of the requests' time is not explained, and left out.")
    if unfinished > _WORTH_FRAC * len(jobs):
        said.append(f"{count(unfinished)} requests were in progress at the end: those that take long are too few here.")
    if overhead is None:
        said.append("CPU outside of requests is not known: the recording has less than 2 s of its processes.")
    return said


def _locked(routes: Sequence[Route]) -> list[str]:
    """Of whose CPU it is not known whether it needs the GIL; on threads nothing of it would be asked."""
    whole = math.fsum(route.rate_per_s * route.demand.cpu_ms for route in routes)
    unknown = [
        route.route
        for route in routes
        if route.unlocked_frac is None and route.rate_per_s * route.demand.cpu_ms > _WORTH_FRAC * whole
    ]
    if not unknown:
        return []
    names = ", ".join(unknown[:_NAMED]) + (f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else "")
    return [f"Whether {names} could compute without the GIL is not known (it takes stacks, and more requests)."]


def _waited(jobs: Iterable[Job], kind: str) -> int:
    return sum(job.wait_ns.get(kind, 0) for job in jobs)


def _error(name: str, value: object, rule: str, hint: str) -> PlanError:
    return PlanError("make a profile of the recording", name=name, value=value, rule=rule, hint=hint)
