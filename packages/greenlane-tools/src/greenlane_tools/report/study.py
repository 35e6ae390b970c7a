"""A recording looked at from every side, computed once: what text, page and rows are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane.record.servers import advice_by
from greenlane.settings import Settings
from greenlane_tools.reader.rows import Job
from greenlane_tools.report.clocks import Branch, RouteClocks, UpstreamClocks, branches_of, route_clocks, upstreams
from greenlane_tools.report.contention import Contention, Uncut, contention_of, uncut_of
from greenlane_tools.report.culprits import Matrix, StackFrame, matrix_of, own_coroutine, places
from greenlane_tools.report.ending import ProcessEnding, endings_of
from greenlane_tools.report.findings import ReportFinding, findings_of
from greenlane_tools.report.gain import LANE, PERMITS, Gain, gains_of, permits_in_force
from greenlane_tools.report.overhead import Overhead, overhead_of
from greenlane_tools.report.own import OwnLine, own_lines
from greenlane_tools.report.split import RouteSplit, split_routes
from greenlane_tools.report.story import Story, stories_of
from greenlane_tools.report.subject import RecordedRows
from greenlane_tools.report.tail import Excess, excesses
from greenlane_tools.report.turns import RouteTurns, turns_of
from greenlane_tools.report.verdict import contention_sentence, verdict_of
from greenlane_tools.report.workers import Balance, Load, Scaling, balance_of, load_of, scaling_of

__all__ = ["ReportStudy", "study_of"]

SLOWEST: Final = 10


@dataclass(frozen=True)
class ReportStudy:
    """All findings of a recording."""

    recording: RecordedRows
    verdict: str
    #: Without jobs: the server that is not observed, and the lines that make its requests jobs; "" = none was seen.
    unobserved: str
    #: Hog or overcommit, in words; "" = neither.
    contention_said: str
    routes: Sequence[RouteSplit]
    #: By route.
    excesses: Mapping[str, Sequence[Excess]]
    matrix: Matrix
    upstreams: Sequence[UpstreamClocks]
    clocks: Sequence[RouteClocks]
    balance: Balance
    contention: Contention
    uncut: Uncut
    gains: Sequence[Gain]
    #: What would bring those.
    remedy: str
    #: Routes that took turns for permits; empty = nobody waited for one.
    turns: Sequence[RouteTurns]
    scaling: Scaling
    load: Load
    #: Branches that missed their job's deadline.
    branches: Sequence[Branch]
    places: Mapping[str, StackFrame]
    findings: Sequence[ReportFinding]
    #: Processes that ended with jobs in progress; that in which something ran for longest first.
    endings: Sequence[ProcessEnding]
    #: Where jobs computed.
    own: Sequence[OwnLine]
    #: What the recording cost; None = it does not say.
    overhead: Overhead | None
    #: The longest jobs, longest first.
    slowest: Sequence[Job]
    #: Their calls by three clocks, in the same order.
    stories: Sequence[Story]
    #: First and last moment, ns of the monotonic clock; equal when nothing was recorded.
    from_ns: int
    to_ns: int


def study_of(recording: RecordedRows, slowest: int = SLOWEST) -> ReportStudy:
    """Looks at a recording. Cost: about 4 s for 100,000 jobs.

    Args:
        slowest: how many of the longest jobs are kept.
    """
    settings = Settings()
    routes = split_routes(recording.jobs)
    called, clocks = upstreams(recording.calls), route_clocks(recording.jobs)
    balance = balance_of(recording.processes, recording.jobs, recording.samples)
    fullest = max((worker.in_progress for worker in balance.workers), default=0.0)
    hottest = balance.hottest
    latency_ns = sum(split.latency_ns for split in routes)
    contention = contention_of(recording.blame, latency_ns, fullest, hottest.busy_frac if hottest else None)
    uncut = uncut_of(recording)
    # A service that has permits needs no estimate of what they would change.
    gains = gains_of(
        () if permits_in_force(recording.jobs) else routes,
        recording.blame,
        heavy_ns=round(settings.heavy_ms * 1e6),
        interval_ns=round(settings.interval_ms * 1e6),
        uncut=uncut.frac_by_culprit,
    )
    placed = places(recording.stacks)
    remedy = LANE if any(own_coroutine(row.stack) for row in recording.stacks) else PERMITS
    jobs = {(job.process, job.job): job for job in recording.jobs}
    load, branches = load_of(recording.jobs), branches_of(recording.calls, jobs)
    slow = sorted(recording.jobs, key=lambda job: -job.latency_ns)[:slowest]
    endings = endings_of(recording.processes, recording.unfinished, recording.marks)
    starts = [process.from_ns for process in recording.processes] or [job.arrival_ns for job in recording.jobs] or [0]
    ends = [process.to_ns for process in recording.processes] or [job.end_ns for job in recording.jobs] or [0]
    return ReportStudy(
        recording=recording,
        verdict=verdict_of(routes, called, jobs, placed, contention.verdict == "occupied"),
        unobserved="" if routes else advice_by(process.about for process in recording.processes),
        contention_said=contention_sentence(contention),
        routes=routes,
        excesses={split.route: excesses(split) for split in routes},
        matrix=matrix_of(recording.blame),
        upstreams=called,
        clocks=clocks,
        balance=balance,
        contention=contention,
        uncut=uncut,
        gains=gains,
        turns=turns_of(routes, recording.blame, recording.turns),
        remedy=remedy,
        scaling=scaling_of(recording.jobs, recording.samples, balance),
        load=load,
        branches=branches,
        places=placed,
        findings=findings_of(
            routes=routes,
            upstreams=called,
            clocks=clocks,
            balance=balance,
            held=recording.held,
            stacks=recording.stacks,
            blame=recording.blame,
            uncut=uncut,
            processes=recording.processes,
            load=load,
            branches=branches,
            endings=endings,
        ),
        endings=endings,
        own=own_lines(recording.own),
        overhead=overhead_of(recording.costs, recording.processes, recording.samples),
        slowest=slow,
        stories=stories_of(recording, slow),
        from_ns=min(starts),
        to_ns=max(ends),
    )
