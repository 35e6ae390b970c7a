"""A recording looked at from every side, computed once: what text, page and rows are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane.record.servers import advice_by
from greenlane_tools.reader.rows import Job
from greenlane_tools.report.clocks import Branch, RouteClocks, UpstreamClocks, branches_of, route_clocks, upstreams
from greenlane_tools.report.culprits import Matrix, StackFrame, matrix_of, places
from greenlane_tools.report.ending import ProcessEnding, endings_of
from greenlane_tools.report.notes import Note, notes_of
from greenlane_tools.report.overhead import Overhead, overhead_of
from greenlane_tools.report.own import OwnLine, own_lines
from greenlane_tools.report.split import RouteSplit, split_routes
from greenlane_tools.report.story import Story, stories_of
from greenlane_tools.report.subject import RecordedRows
from greenlane_tools.report.tail import Excess, excesses
from greenlane_tools.report.turns import RouteTurns, turns_of
from greenlane_tools.report.verdict import Verdict, verdict_of
from greenlane_tools.report.waiting import boot_jobs, host_family, waits_of
from greenlane_tools.report.workers import Balance, Load, Scaling, balance_of, load_of, scaling_of

__all__ = ["ReportStudy", "study_of"]

SLOWEST: Final = 10


@dataclass(frozen=True)
class ReportStudy:
    """All findings of a recording."""

    recording: RecordedRows
    #: Headline, culprit, line and remedy of every output.
    verdict: Verdict
    #: Without jobs: the server that is not observed, and the lines that make its requests jobs; "" = none was seen.
    unobserved: str
    routes: Sequence[RouteSplit]
    #: By route.
    excesses: Mapping[str, Sequence[Excess]]
    matrix: Matrix
    upstreams: Sequence[UpstreamClocks]
    clocks: Sequence[RouteClocks]
    balance: Balance
    #: Routes that took turns for permits; empty = nobody waited for one.
    turns: Sequence[RouteTurns]
    scaling: Scaling
    load: Load
    #: Branches that missed their job's deadline.
    branches: Sequence[Branch]
    places: Mapping[str, StackFrame]
    #: Beside the verdict.
    notes: Sequence[Note]
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
    routes = split_routes(recording.jobs)
    called, clocks = upstreams(recording.calls), route_clocks(recording.jobs)
    balance = balance_of(recording.processes, recording.jobs, recording.samples)
    jobs = {(job.process, job.job): job for job in recording.jobs}
    load, branches = load_of(recording.jobs), branches_of(recording.calls, jobs)
    slow = sorted(recording.jobs, key=lambda job: -job.latency_ns)[:slowest]
    endings = endings_of(recording.processes, recording.unfinished, recording.marks)
    notes = notes_of(
        routes=routes,
        upstreams=called,
        clocks=clocks,
        balance=balance,
        own=recording.own,
        processes=recording.processes,
        boot=boot_jobs(recording.jobs, [split.route for split in routes]),
        load=load,
        branches=branches,
        endings=endings,
    )
    waits, family = waits_of(recording, routes), host_family(recording)
    starts = [process.from_ns for process in recording.processes] or [job.arrival_ns for job in recording.jobs] or [0]
    ends = [process.to_ns for process in recording.processes] or [job.end_ns for job in recording.jobs] or [0]
    return ReportStudy(
        recording=recording,
        verdict=verdict_of(routes, waits, called, recording.own, family, [note.text for note in notes]),
        unobserved="" if routes else advice_by(process.about for process in recording.processes),
        routes=routes,
        excesses={split.route: excesses(split) for split in routes},
        matrix=matrix_of(recording.blame),
        upstreams=called,
        clocks=clocks,
        balance=balance,
        turns=turns_of(routes, recording.blame, recording.turns),
        scaling=scaling_of(recording.jobs, recording.samples, balance),
        load=load,
        branches=branches,
        places=places(recording.stacks),
        notes=notes,
        endings=endings,
        own=own_lines(recording.own),
        overhead=overhead_of(recording.costs, recording.processes, recording.samples),
        slowest=slow,
        stories=stories_of(recording, slow),
        from_ns=min(starts),
        to_ns=max(ends),
    )
