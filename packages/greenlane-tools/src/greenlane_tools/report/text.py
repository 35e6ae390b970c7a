"""The study for a terminal: the sentence first, then the tables that it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.reader.rows import Own
from greenlane_tools.report.ending import place_of
from greenlane_tools.report.own import OwnLine, own_lines
from greenlane_tools.report.split import KINDS, named
from greenlane_tools.report.story import story_sentence
from greenlane_tools.report.study import ReportStudy
from greenlane_tools.report.turns import RouteTurns, counted_turns

__all__ = ["Section", "own_rows", "plain", "sections", "turns_rows"]

#: Lines of each table; the page and `--json` have all.
_MOST: Final = 8

Line = Mapping[str, object]
Section = tuple[str, Sequence[Line], Sequence[str]]


def sections(study: ReportStudy) -> Iterator[Section]:
    """(heading, rows, columns) of each table that has something to say."""
    for heading, rows in (
        ("where the time went, mean a job", _routes(study)),
        ("what slow jobs have more of", _tails(study)),
        ("who made whom wait", _blame(study)),
        ("turns for permits: who pays, who gains", turns_rows(study.turns[:_MOST])),
        ("upstream's clock beside yours", _upstreams(study)),
        (_slowest(study), _slow_calls(study)),
        ("where the slowest job computed", own_rows(own_lines(_of_slowest(study))[:_MOST])),
        ("where jobs computed", own_rows(study.own[:_MOST])),
        ("what was running at the end", _endings(study)),
        ("workers", _workers(study)),
    ):
        if rows:
            yield heading, rows, list(rows[0])


def _routes(study: ReportStudy) -> Sequence[Line]:
    shown = study.routes[:_MOST]
    kinds = [kind for kind in KINDS if any(split.levels["mean"].parts[kind] > 0 for split in shown)]
    return [
        {
            "route": split.route,
            "jobs": count(len(split.jobs)),
            **{name: duration(level.latency_ns) for name, level in split.levels.items() if name in ("p50", "p99")},
            **{named(kind).removeprefix("wait: "): duration(split.levels["mean"].parts[kind]) for kind in kinds},
        }
        for split in shown
    ]


def _tails(study: ReportStudy) -> Sequence[Line]:
    found: list[Line] = []
    for split in study.routes[:_MOST]:
        for each in study.excesses[split.route]:
            if each.at != "p99" or each.excess_ns <= 0:
                continue
            culprit, frac = each.culprits[0] if each.culprits else ("", 0.0)
            found.append(
                {
                    "route": split.route,
                    "p99 - p50": duration(each.excess_ns),
                    "is waiting": share(each.wait_frac),
                    "mostly": named(each.kind),
                    "for": f"{culprit} {share(frac)}" if culprit else "",
                    "at": study.places[culprit].place if culprit in study.places else "",
                }
            )
    return found


def _blame(study: ReportStudy) -> Sequence[Line]:
    cells = sorted(study.matrix.cells.items(), key=lambda item: -item[1])
    return [
        {
            "victim": victim,
            "waited": duration(ns),
            "of its wait": share(study.matrix.share(victim, culprit)),
            "for": culprit,
            "at": study.places[culprit].place if culprit in study.places else "",
        }
        for (victim, culprit), ns in cells[:_MOST]
    ]


def turns_rows(turns: Sequence[RouteTurns]) -> Sequence[Line]:
    """A row a route."""
    return [
        {
            "route": each.route,
            "jobs": count(each.jobs),
            "that waited": count(each.waited),
            "pays": duration(each.pays_ns),
            "gains": duration(each.gains_ns),
            **{name: count(number) for name, number in counted_turns(each).items()},
        }
        for each in turns
    ]


def _upstreams(study: ReportStudy) -> Sequence[Line]:
    shown = study.upstreams[:_MOST]
    # Most upstreams say nothing of themselves: no column then.
    told = any(each.own for each in shown)
    return [
        {
            "route": each.route or "-",
            "upstream": f"{each.upstream} {each.operation}".strip(),
            "calls": count(len(each.calls)),
            "seen p99": duration(each.seen.p99_ns),
            **({"its clock p99": _known(each.own and each.own.p99_ns)} if told else {}),
            "on the wire p99": _known(each.wire and each.wire.p99_ns),
            "process p99": _known(each.late and each.late.p99_ns),
            "after deadline": count(each.late_resumed + each.late_replied),
        }
        for each in shown
    ]


def _slowest(study: ReportStudy) -> str:
    """The heading above the slowest job's calls: the job, and the sentence about the worst of them."""
    if not study.stories:
        return ""
    story = study.stories[0]
    trace = f" (trace {story.trace})" if story.trace else ""
    return f"the slowest job{trace}, call by call: {story_sentence(story, study.places)}".rstrip(": ")


def _slow_calls(study: ReportStudy) -> Sequence[Line]:
    if not study.stories:
        return []
    return [
        {
            "call": f"{each.call.upstream} {each.call.operation}".strip(),
            "at": duration(each.call.from_ns - study.stories[0].job.arrival_ns),
            "upstream's clock": _known(each.call.own_ns or None),
            "the wire": _known(each.call.wire_ns if each.call.ready_ns else None),
            "your clock": duration(each.seen_ns),
            "times": factor(each.factor) if each.factor else "-",
            "waited for": f"{each.culprits[0][0]} {duration(each.culprits[0][1])}" if each.culprits else "",
        }
        for each in study.stories[0].calls[:_MOST]
    ]


def _of_slowest(study: ReportStudy) -> list[Own]:
    slowest = {(job.process, job.job) for job in study.slowest[:1]}
    return [row for row in study.recording.own if (row.process, row.job) in slowest]


def own_rows(lines: Sequence[OwnLine]) -> Sequence[Line]:
    """A row a line of code."""
    return [
        {
            "route": line.route,
            "at": line.frame.place,
            "in": line.frame.function,
            "CPU": duration(line.cpu_ns),
            "of what was seen": share(line.frac),
            "looks": count(line.looks),
        }
        for line in lines
    ]


def _endings(study: ReportStudy) -> Sequence[Line]:
    found: list[Line] = []
    for ending in study.endings:
        for job in ending.jobs[:_MOST]:
            frame = place_of(job)
            found.append(
                {
                    "process": str(ending.process.pid),
                    "end": ending.how,
                    "route": job.route,
                    "since": duration(ending.at_ns - job.arrival_ns),
                    "running for": duration(job.running_ns) if job.running_ns else "-",
                    "at": frame.place if frame else "",
                    "kept the loop": "yes" if job.held else "",
                }
            )
    return found[:_MOST]


def _workers(study: ReportStudy) -> Sequence[Line]:
    return [
        {
            "worker": each.pid,
            "jobs": count(each.jobs),
            "of all": share(each.jobs_frac),
            "busy": "-" if each.busy_frac is None else share(each.busy_frac),
            "lag p99": _known(each.lag_p99_ns),
            "in progress": f"{each.in_progress:.1f}",
            "p99": _known(each.latency_p99_ns),
            "GIL waking": "-" if each.waking_frac is None else share(each.waking_frac),
        }
        for each in study.balance.workers[:_MOST]
    ]


def _known(ns: int | None) -> str:
    return "-" if ns is None else duration(ns)


def plain(said: str) -> str:
    """The text with what could steer a terminal written out: routes come from strangers."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in said)
