"""What else deserves a sentence. Each looks for one thing that people are called for, and is silent without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.reader.rows import Blame, Held, Process, Stack
from greenlane_tools.report.clocks import Branch, RouteClocks, UpstreamClocks
from greenlane_tools.report.contention import WORTH_FRAC, Uncut
from greenlane_tools.report.culprits import StackFrame, called, own_coroutine, own_frame
from greenlane_tools.report.ending import ProcessEnding, ending_sentence
from greenlane_tools.report.split import RouteSplit
from greenlane_tools.report.workers import Balance, Load

__all__ = ["ReportFinding", "findings_of"]

#: A difference of clocks, a factor, an imbalance below these is nothing to act on. Arbitrary.
_CLOCKS_FACTOR: Final = 1.2
_INFLATED: Final = 1.5
_UNEVEN: Final = 1.5
_HOT_FRAC: Final = 0.85
_COOL_FRAC: Final = 0.6
_POOL_FRAC: Final = 0.05
_UNCUT_FRAC: Final = 0.05
_MACHINE_FRAC: Final = 0.1
_MISSED_FRAC: Final = 0.001
_LEAST_NS: Final = 1_000_000
#: Between an upstream's clock and the wire.
_BETWEEN_NS: Final = 10_000_000
_HELD_NS: Final = 10_000_000
#: … and one of them this long.
_HELD_ONCE_NS: Final = 5_000_000
#: … or this many at one place: a driver that is not cooperative.
_HELD_OFTEN: Final = 50
#: Lines in coroutines that are worth naming: this many, each with this share of what was seen while others waited.
_MOST_LINES: Final = 3
_ON_LOOP_FRAC: Final = 0.1
#: Fewer jobs a worker are spread by chance.
_LEAST_JOBS: Final = 20


@dataclass(frozen=True)
class ReportFinding:
    """One thing found."""

    #: A short stable name: end, late-replies, branch, clock, hot-worker, uneven, inflated-spans, blocked-loop,
    #: upstream-clock, on-the-loop, executor, uncut, machine, unseen, closed-loop.
    name: str
    said: str


def findings_of(
    *,
    routes: Sequence[RouteSplit],
    upstreams: Sequence[UpstreamClocks],
    clocks: Sequence[RouteClocks],
    balance: Balance,
    held: Sequence[Held],
    stacks: Sequence[Stack],
    blame: Sequence[Blame],
    uncut: Uncut,
    processes: Sequence[Process],
    load: Load,
    branches: Sequence[Branch],
    endings: Sequence[ProcessEnding],
) -> list[ReportFinding]:
    """Those that the recording gives cause for."""
    return [
        *_end(endings),
        *_late_replies(upstreams),
        *_branches(branches),
        *_clock(clocks),
        *_workers(balance),
        *_spans(upstreams),
        *_own_clock(upstreams),
        *_blocked(held),
        *_on_the_loop(stacks),
        *_executor(routes, blame, processes),
        *_native(uncut, routes),
        *_machine(routes),
        *_unseen(routes),
        *_load(load),
    ]


def _end(endings: Sequence[ProcessEnding]) -> Iterator[ReportFinding]:
    # Jobs that were in progress when somebody switched it off, or that a server in order gave up, are no news.
    for each in endings:
        if each.how == "aborted" or (each.how == "cut" and each.runner is not None):
            yield ReportFinding("end", ending_sentence(each))


def _late_replies(upstreams: Sequence[UpstreamClocks]) -> Iterator[ReportFinding]:
    resumed, replied = sum(each.late_resumed for each in upstreams), sum(each.late_replied for each in upstreams)
    limited = sum(each.with_deadline for each in upstreams)
    if not resumed + replied:
        return
    worst = max(upstreams, key=lambda each: each.late_resumed + each.late_replied)
    yield ReportFinding(
        "late-replies",
        f"{count(resumed + replied)} of {count(limited)} calls with a timeout returned data after it, without an "
        f"error: {count(resumed)} replies arrived in time and the process was late, {count(replied)} arrived late. "
        f"Most of them: {worst.upstream} in {worst.route}.",
    )


def _branches(branches: Sequence[Branch]) -> Iterator[ReportFinding]:
    for each in branches[:1]:
        if each.missed_frac >= _MISSED_FRAC:
            yield ReportFinding(
                "branch",
                f"Of the branches of {each.route}, {each.upstream} {each.operation} misses the job's deadline most "
                f"often: {count(each.missed)} of {count(each.calls)} calls. In {count(each.was_ready)} of them "
                "the reply was there in time, and the process was late.",
            )


def _clock(clocks: Sequence[RouteClocks]) -> Iterator[ReportFinding]:
    for each in clocks[:1]:
        if (
            each.arrival_p99_ns > _CLOCKS_FACTOR * each.handler_p99_ns
            and each.arrival_p99_ns - each.handler_p99_ns > _LEAST_NS
        ):
            yield ReportFinding(
                "clock",
                f"A clock that starts in the handler says p99 {duration(each.handler_p99_ns)} for {each.route}; from "
                f"arrival it is {duration(each.arrival_p99_ns)}. What waits before the first instruction is on no "
                "dashboard of the application.",
            )


def _workers(balance: Balance) -> Iterator[ReportFinding]:
    hottest, mean = balance.hottest, balance.mean_busy_frac
    if hottest and hottest.busy_frac and mean is not None and hottest.busy_frac >= _HOT_FRAC and mean <= _COOL_FRAC:
        yield ReportFinding(
            "hot-worker",
            f"Worker {hottest.pid} uses {share(hottest.busy_frac)} of a core; the mean of all workers is "
            f"{share(mean)}. An average over the host hides that.",
        )
    jobs, workers = sum(worker.jobs for worker in balance.workers), len(balance.workers)
    if workers > 1 and jobs >= _LEAST_JOBS * workers and (balance.max_to_mean or 0) >= _UNEVEN:
        idle = sum(worker.jobs == 0 for worker in balance.workers)
        none = f", {idle} had none" if idle else ""
        yield ReportFinding(
            "uneven",
            f"The busiest of {workers} workers had {factor(balance.max_to_mean or 0)} its share of the jobs"
            f"{none} (Gini {balance.gini or 0:.2f}).",
        )


def _spans(upstreams: Sequence[UpstreamClocks]) -> Iterator[ReportFinding]:
    found = [
        each
        for each in upstreams
        if each.route
        and each.wire_p99_ns is not None
        and each.seen_p99_ns >= max(_INFLATED * each.wire_p99_ns, _LEAST_NS)
    ]
    if found:
        worst = found[0]
        yield ReportFinding(
            "inflated-spans",
            f"Spans of {count(len(found))} upstream operation{'s' * (len(found) > 1)} are inflated by the process's "
            f"own lateness; {worst.upstream} {worst.operation} in {worst.route} reads p99 "
            f"{duration(worst.seen_p99_ns)} and was {duration(worst.wire_p99_ns or 0)}.",
        )


def _own_clock(upstreams: Sequence[UpstreamClocks]) -> Iterator[ReportFinding]:
    """The upstream's clock against the wire: what neither of the two processes has on its dashboard."""
    found = [
        (each, each.wire_p99_ns, each.own_p99_ns)
        for each in upstreams
        if each.own_p99_ns
        and each.wire_p99_ns is not None
        and each.wire_p99_ns >= _INFLATED * each.own_p99_ns
        and each.wire_p99_ns - each.own_p99_ns >= _BETWEEN_NS
    ]
    if found:
        worst, wire_ns, own_ns = max(found, key=lambda one: one[1] - one[2])
        yield ReportFinding(
            "upstream-clock",
            f"{worst.upstream} {worst.operation} reports a p99 of {duration(own_ns)} by its own clock; its replies to "
            f"{worst.route} took {duration(wire_ns)} on the wire. In between are the network, proxies, and waiting at "
            "the upstream before its clock starts.",
        )


def _blocked(held: Sequence[Held]) -> Iterator[ReportFinding]:
    worst = max(held, key=lambda row: row.ns, default=None)
    # Below that, each is a system call on a busy machine, unless there are many at one place.
    some = worst is not None and (worst.longest_ns >= _HELD_ONCE_NS or worst.calls >= _HELD_OFTEN)
    if worst is not None and some and sum(row.ns for row in held) >= _HELD_NS:
        yield ReportFinding(
            "blocked-loop",
            f"Calls that blocked a whole loop without switching: {count(sum(row.calls for row in held))}, "
            f"{duration(sum(row.ns for row in held))} together; most of it {worst.call} in {worst.route}"
            f"{_at(worst.stack)}, {count(worst.calls)} times, up to {duration(worst.longest_ns)} at a time.",
        )


def _at(stack: str) -> str:
    frame = own_frame(stack)
    return f" at {frame.place}" if frame is not None else ""


def _on_the_loop(stacks: Sequence[Stack]) -> Iterator[ReportFinding]:
    """CPU work in coroutines while others waited: the line to move, and how."""
    kept: dict[tuple[str, StackFrame, str], int] = {}
    for row in stacks:
        found = own_coroutine(row.stack)
        if found is not None:
            kept[row.culprit, *found] = kept.get((row.culprit, *found), 0) + row.ns
    all_ns = sum(row.ns for row in stacks)
    for key in sorted(kept, key=lambda each: -kept[each])[:_MOST_LINES]:
        culprit, frame, called_there = key
        if kept[key] < max(_HELD_NS, _ON_LOOP_FRAC * all_ns):
            return
        remedy = f"await greenlane.run({called_there}, …)" if called_there else "put it into a function and await that"
        remedy += "" if called_there else " by greenlane.run"
        yield ReportFinding(
            "on-the-loop",
            f"{called(culprit)} computes on the event loop: others waited {duration(kept[key])} while it was at "
            f"{frame.place} in {frame.function}{', in ' + called_there if called_there else ''}. Move that line off "
            f"the loop: {remedy}.",
        )


def _executor(
    routes: Sequence[RouteSplit], blame: Sequence[Blame], processes: Iterable[Process]
) -> Iterator[ReportFinding]:
    whole = sum(split.latency_ns for split in routes) or 1
    pool_ns = sum(job.wait_ns.get("pool", 0) for split in routes for job in split.jobs)
    if pool_ns / whole >= _POOL_FRAC:
        worst = max(routes, key=lambda split: sum(job.wait_ns.get("pool", 0) for job in split.jobs))
        yield ReportFinding(
            "executor",
            f"{share(pool_ns / whole)} of all time is waiting for a place in a pool, most of it in {worst.route}: the "
            "executor moved the queue, it did not shorten it.",
        )
    queues = [row for row in blame if row.kind == "queue"]
    queued_ns = sum(row.ns for row in queues)
    if queued_ns / whole >= _POOL_FRAC:
        worst_row = max(queues, key=lambda row: row.ns)
        yield ReportFinding(
            "executor",
            f"{share(queued_ns / whole)} of all time is waiting in the queue of one thread, most of it "
            f"{worst_row.victim} for {worst_row.culprit}. The thread does one call at a time: open more connections, "
            "or make fewer calls.",
        )
    threads = [row for row in blame if row.kind in ("gil", "loop") and row.culprit.startswith("thread ")]
    by_threads = sum(row.ns for row in threads)
    if by_threads / whole >= _POOL_FRAC:
        name = max(threads, key=lambda row: row.ns).culprit
        yield ReportFinding(
            "executor",
            f"Jobs waited {duration(by_threads)} for threads of the process itself (most for {name}): work in a thread "
            "still takes the GIL from the loop; a process would not.",
        )
    yield from _green_pool(routes, processes)


def _green_pool(routes: Sequence[RouteSplit], processes: Iterable[Process]) -> Iterator[ReportFinding]:
    green = {process.number for process in processes if process.about.get("threads_are_greenlets")}
    jobs = [job for split in routes for job in split.jobs if job.process in green]
    # A future's result is waited for by gevent's own locks there.
    waited = sum(job.wait_ns.get(kind, 0) for job in jobs for kind in ("pool", "lock"))
    whole = sum(job.latency_ns for job in jobs) or 1
    if waited / whole >= _POOL_FRAC:
        yield ReportFinding(
            "executor",
            f"{share(waited / whole)} of the time of {count(len(jobs))} jobs is waiting for pools and locks, and in "
            "their processes monkey patching made the thread pool's threads greenlets: what was moved to a pool runs "
            "in the loop.",
        )


def _native(uncut: Uncut, routes: Sequence[RouteSplit]) -> Iterator[ReportFinding]:
    worth = uncut.gil_wait_ns >= WORTH_FRAC * sum(split.latency_ns for split in routes)
    if worth and uncut.frac >= _UNCUT_FRAC and uncut.culprits:
        name, _, longest = uncut.culprits[0]
        yield ReportFinding(
            "uncut",
            f"About {share(uncut.frac)} of the waiting for the GIL is for slices that the interpreter could not "
            f"interrupt (most of {called(name)}, up to {duration(longest)}): C calls that hold the GIL. No switch "
            "interval and no permit shortens them; another process does.",
        )


def _machine(routes: Sequence[RouteSplit]) -> Iterator[ReportFinding]:
    whole = sum(split.latency_ns for split in routes) or 1
    os_ns = sum(job.wait_ns.get("os", 0) for split in routes for job in split.jobs)
    if os_ns / whole >= _MACHINE_FRAC:
        yield ReportFinding(
            "machine",
            f"{share(os_ns / whole)} of all time is waiting for a core: the machine, or the container's quota, had "
            "none free. Nothing inside the process changes that.",
        )


def _unseen(routes: Sequence[RouteSplit]) -> Iterator[ReportFinding]:
    whole = sum(split.latency_ns for split in routes) or 1
    by_route = {split.route: sum(job.wait_ns.get("unseen", 0) for job in split.jobs) for split in routes}
    unseen_ns = sum(by_route.values())
    if unseen_ns / whole >= _MACHINE_FRAC:
        worst = max(by_route, key=lambda route: by_route[route])
        yield ReportFinding(
            "unseen",
            f"{share(unseen_ns / whole)} of all time is blocked, unseen, most of it in {worst}: threads were off their "
            "core although the scheduler had one for them. A driver or C extension blocks by system calls of its own, "
            "or memory is paged in. `strace -c -f -w -p PID` names the call; on a loop, move it to a thread.",
        )


def _load(load: Load) -> Iterator[ReportFinding]:
    if load.closed:
        yield ReportFinding(
            "closed-loop",
            f"About {load.most_in_progress} jobs were in progress all the time (N = X·R: {load.per_s:.1f} a second × "
            f"{duration(load.latency_ns)} = {load.per_s * load.latency_ns / 1e9:.1f}): each client waits for its "
            "answer before it asks again. Independent users do not wait, so their queues are longer.",
        )
