"""What else deserves a sentence, beside the verdict: facts that mislead those who do not know them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.reader.rows import Job, Own, Process
from greenlane_tools.report.clocks import Branch, RouteClocks, UpstreamClocks
from greenlane_tools.report.culprits import spot_of
from greenlane_tools.report.ending import ProcessEnding, ending_sentence
from greenlane_tools.report.split import RouteSplit
from greenlane_tools.report.workers import Balance, Load

__all__ = ["Note", "notes_of"]

#: A difference of clocks, a factor, an imbalance below these is nothing to act on. Arbitrary.
_CLOCKS_FACTOR: Final = 1.2
_INFLATED: Final = 1.5
_UNEVEN: Final = 1.5
_HOT_FRAC: Final = 0.85
_COOL_FRAC: Final = 0.6
_MISSED_FRAC: Final = 0.001
_LEAST_NS: Final = 1_000_000
#: Between an upstream's clock and the wire.
_BETWEEN_NS: Final = 10_000_000
_POOL_FRAC: Final = 0.05
_BOOT_NS: Final = 100_000_000
#: Of a route's time.
_AFTER_FRAC: Final = 0.1
_MACHINE_FRAC: Final = 0.1
#: Of a worker's time.
_WAKING_FRAC: Final = 0.02
#: Fewer jobs a worker are spread by chance.
_LEAST_JOBS: Final = 20


@dataclass(frozen=True)
class Note:
    """One of them."""

    #: A short stable name: end, late-replies, branch, clock, after-handler, hot-worker, uneven, inflated-spans,
    #: upstream-clock, green-pool, boot, machine, waking, closed-loop.
    name: str
    text: str


def notes_of(
    *,
    routes: Sequence[RouteSplit],
    upstreams: Sequence[UpstreamClocks],
    clocks: Sequence[RouteClocks],
    balance: Balance,
    own: Sequence[Own],
    processes: Sequence[Process],
    boot: Sequence[Job],
    load: Load,
    branches: Sequence[Branch],
    endings: Sequence[ProcessEnding],
) -> list[Note]:
    """Those that the recording gives cause for."""
    return [
        *_end(endings),
        *_late_replies(upstreams),
        *_branches(branches),
        *_after_handler(routes, own),
        *_clock(clocks, boot),
        *_workers(balance),
        *_spans(upstreams),
        *_own_clock(upstreams),
        *_green_pool(routes, processes),
        *_boot(boot, routes),
        *_machine(routes),
        *_waking(balance),
        *_load(load),
    ]


def _end(endings: Sequence[ProcessEnding]) -> Iterator[Note]:
    # Jobs that were in progress when somebody switched it off, or that a server in order gave up, are no news.
    for each in endings:
        if each.how == "aborted" or (each.how == "cut" and each.runner is not None):
            yield Note("end", ending_sentence(each))


def _late_replies(upstreams: Sequence[UpstreamClocks]) -> Iterator[Note]:
    resumed, replied = sum(each.late_resumed for each in upstreams), sum(each.late_replied for each in upstreams)
    limited = sum(each.with_deadline for each in upstreams)
    if not resumed + replied:
        return
    worst = max(upstreams, key=lambda each: each.late_resumed + each.late_replied)
    yield Note(
        "late-replies",
        f"{count(resumed + replied)} of {count(limited)} calls with a timeout returned data after it, without an "
        f"error: {count(resumed)} replies arrived in time and the process was late, {count(replied)} arrived late. "
        f"Most of them: {worst.upstream} in {worst.route}.",
    )


def _branches(branches: Sequence[Branch]) -> Iterator[Note]:
    for each in branches[:1]:
        if each.missed_frac >= _MISSED_FRAC:
            yield Note(
                "branch",
                f"Of the branches of {each.route}, {each.upstream} {each.operation} misses the job's deadline most "
                f"often: {count(each.missed)} of {count(each.calls)} calls. In {count(each.was_ready)} of them "
                "the reply was there in time, and the process was late.",
            )


def _clock(clocks: Sequence[RouteClocks], boot: Sequence[Job]) -> Iterator[Note]:
    for each in clocks[:1]:
        boot_ns = max((job.latency_ns for job in boot if job.route == each.route), default=0)
        if (
            each.arrival.p99_ns > boot_ns
            and each.arrival.p99_ns > _CLOCKS_FACTOR * each.handler.p99_ns
            and each.arrival.p99_ns - each.handler.p99_ns > _LEAST_NS
        ):
            yield Note(
                "clock",
                f"A clock that starts in the handler, like that of the application's own metrics, says p99 "
                f"{duration(each.handler.p99_ns)} for {each.route}. From arrival it is "
                f"{duration(each.arrival.p99_ns)}.",
            )


def _workers(balance: Balance) -> Iterator[Note]:
    hottest, mean = balance.hottest, balance.mean_busy_frac
    if hottest and hottest.busy_frac and mean is not None and hottest.busy_frac >= _HOT_FRAC and mean <= _COOL_FRAC:
        yield Note(
            "hot-worker",
            f"Worker {hottest.pid} uses {share(hottest.busy_frac)} of a core; the mean of all workers is "
            f"{share(mean)}. An average over the host hides that.",
        )
    jobs, workers = sum(worker.jobs for worker in balance.workers), len(balance.workers)
    if workers > 1 and jobs >= _LEAST_JOBS * workers and (balance.max_to_mean or 0) >= _UNEVEN:
        idle = sum(worker.jobs == 0 for worker in balance.workers)
        none = f", {idle} had none" if idle else ""
        yield Note(
            "uneven",
            f"The busiest of {workers} workers had {factor(balance.max_to_mean or 0)} its share of the jobs"
            f"{none} (Gini {balance.gini or 0:.2f}).",
        )


def _spans(upstreams: Sequence[UpstreamClocks]) -> Iterator[Note]:
    found = [
        (each, each.wire.p99_ns)
        for each in upstreams
        if each.route and each.wire and each.seen.p99_ns >= max(_INFLATED * each.wire.p99_ns, _LEAST_NS)
    ]
    if found:
        worst, wire_ns = found[0]
        yield Note(
            "inflated-spans",
            f"Spans of {count(len(found))} upstream operation{'s' * (len(found) > 1)} are inflated by the process's "
            f"own lateness; {worst.upstream} {worst.operation} in {worst.route} reads p99 "
            f"{duration(worst.seen.p99_ns)} and was {duration(wire_ns)}.",
        )


def _own_clock(upstreams: Sequence[UpstreamClocks]) -> Iterator[Note]:
    """The upstream's clock against the wire: what neither of the two processes has on its dashboard."""
    found = [
        (each, each.wire.p99_ns, each.own.p99_ns)
        for each in upstreams
        if each.own
        and each.wire
        and each.wire.p99_ns >= max(_INFLATED * each.own.p99_ns, each.own.p99_ns + _BETWEEN_NS)
    ]
    if found:
        worst, wire_ns, own_ns = max(found, key=lambda one: one[1] - one[2])
        yield Note(
            "upstream-clock",
            f"{worst.upstream} {worst.operation} reports a p99 of {duration(own_ns)} by its own clock; its replies to "
            f"{worst.route} took {duration(wire_ns)} on the wire. In between are the network, proxies, and waiting at "
            "the upstream before its clock starts.",
        )


def _after_handler(routes: Sequence[RouteSplit], own: Sequence[Own]) -> Iterator[Note]:
    """Computing after the application's code has returned, which its own timers and spans do not see."""
    after: dict[str, int] = {}
    whole: dict[str, int] = {}
    for row in own:
        whole[row.route] = whole.get(row.route, 0) + row.cpu_ns
        spot = spot_of(row.stack)
        if spot is not None and spot.after_handler:
            after[row.route] = after.get(row.route, 0) + row.cpu_ns
    for split in sorted(routes, key=lambda each: -after.get(each.route, 0))[:1]:
        ns = after.get(split.route, 0)
        if ns >= max(_AFTER_FRAC * split.latency_ns, _LEAST_NS):
            yield Note(
                "after-handler",
                f"{share(min(1.0, ns / split.latency_ns))} of the time of {split.route} is after its handler has "
                f"returned ({share(ns / whole[split.route])} of its CPU): its answer is validated and encoded. No "
                "timer in the handler sees that.",
            )


def _green_pool(routes: Sequence[RouteSplit], processes: Iterable[Process]) -> Iterator[Note]:
    green = {process.number for process in processes if process.about.get("threads_are_greenlets")}
    jobs = [job for split in routes for job in split.jobs if job.process in green]
    # A future's result is waited for by gevent's own locks there.
    waited = sum(job.wait_ns.get(kind, 0) for job in jobs for kind in ("pool", "lock"))
    whole = sum(job.latency_ns for job in jobs) or 1
    if waited / whole >= _POOL_FRAC:
        yield Note(
            "green-pool",
            f"{share(waited / whole)} of the time of {count(len(jobs))} jobs is waiting for pools and locks, and in "
            "their processes monkey patching made the thread pool's threads greenlets: what was moved to a pool runs "
            "in the loop.",
        )


def _boot(boot: Sequence[Job], routes: Sequence[RouteSplit]) -> Iterator[Note]:
    if boot and max(job.latency_ns for job in boot) >= _BOOT_NS:
        jobs = sum(len(split.jobs) for split in routes)
        longest = max(boot, key=lambda job: job.latency_ns)
        yield Note(
            "boot",
            f"{count(len(boot))} of {count(jobs)} jobs came while their process was still starting (the longest, "
            f"{longest.route}, took {duration(longest.latency_ns)}): they are left out.",
        )


def _machine(routes: Sequence[RouteSplit]) -> Iterator[Note]:
    whole = sum(split.latency_ns for split in routes) or 1
    os_ns = sum(job.wait_ns.get("os", 0) for split in routes for job in split.jobs)
    if os_ns / whole >= _MACHINE_FRAC:
        yield Note(
            "machine",
            f"{share(os_ns / whole)} of all time is waiting for a core: others on this machine, or this service's own "
            "processes and native threads, had them.",
        )


def _waking(balance: Balance) -> Iterator[Note]:
    worst = max(balance.workers, key=lambda each: each.waking_frac or 0, default=None)
    if worst and (worst.waking_frac or 0) >= _WAKING_FRAC:
        yield Note(
            "waking",
            f"{share(worst.waking_frac or 0)} of the time of worker {worst.pid} nobody had the GIL although a thread "
            f"waited for it: {count(worst.hand_overs)} hand-overs of {duration(worst.mean_waking_ns)} each, from a "
            "release until the next thread ran. A sleeping core makes them long; on one core they are short.",
        )


def _load(load: Load) -> Iterator[Note]:
    if load.closed:
        yield Note(
            "closed-loop",
            f"About {load.most_in_progress} jobs were in progress all the time (N = X·R: {load.per_s:.1f} a second × "
            f"{duration(load.latency_ns)} = {load.per_s * load.latency_ns / 1e9:.1f}): each client waits for its "
            "answer before it asks again. Independent users do not wait, so their queues are longer.",
        )
