"""Upstreams' clocks beside the application's, the clocks of an arrival, and the slowest jobs call by call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from greenlane_tools.page.axis import LogAxis
from greenlane_tools.page.blocks import Row, details, figure, legend, paragraph, section, table, wide
from greenlane_tools.page.charts.stacked_bars import Bar, stacked_bars
from greenlane_tools.page.charts.waterfall import Stretch, waterfall
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.html import Html, joined
from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.reader.rows import Job, Segment
from greenlane_tools.report.clocks import Clock, UpstreamClocks
from greenlane_tools.report.culprits import frames
from greenlane_tools.report.split import named, parts
from greenlane_tools.report.story import CallStory, Story, story_sentence
from greenlane_tools.report.study import ReportStudy
from greenlane_tools.report.views.time import MOST_DRAWN, kinds_legend, shortened

__all__ = ["calls_view", "clocks_view", "slowest_view"]

_DRAWN = 6
_OPEN = 3
#: Calls of one job in its table.
_MOST_CALLS = 20
#: The worst call is marked when your clock reads at least this many times the upstream's.
_WORTH_FACTOR = 2.0
#: A wait of at least this share of a job names two culprits; of shorter ones the first is enough.
_LONG_FRAC = 0.05
_APPLICATION, _WIRE, _UPSTREAM = "your clock", "the wire", "upstream's clock"


def calls_view(study: ReportStudy) -> Html:
    """The section."""
    if not study.upstreams and not study.recording.held:
        return Html("")
    return section(
        "Upstreams: their clock beside yours",
        _bars([each for each in study.upstreams if each.known][:MOST_DRAWN]),
        _table(study),
        _branches(study),
        _held(study),
        about="On the wire: from the send until the reply was there. In the process: the reply was there and the code "
        "did not go on; a client's span contains both, which is how a database gets the blame.",
        name="upstreams",
    )


def _bars(found: list[UpstreamClocks]) -> Html:
    if not found:
        return Html("")
    bars = []
    for each in found:
        times = f" ({factor(each.factor)})" if each.factor >= 1 else ""
        said = f"{duration(each.slow_wire_ns)}, then {duration(each.slow_late_ns)}{times}"
        bars.append(Bar(_named(each), {"io": each.slow_wire_ns, "loop": each.slow_late_ns}, said))
    key = legend({"k-io": "on the wire", "k-loop": "in the process"})
    drawing = wide(stacked_bars(bars, "slow calls: on the wire, then in the process"))
    return joined([figure("Slow calls", drawing, "means around p99 of what the code saw"), key])


def _named(each: UpstreamClocks) -> str:
    return f"{each.upstream or each.operation or 'unknown'} in {each.route}"


def _table(study: ReportStudy) -> Html:
    if not study.upstreams:
        return Html("")
    found, more = shortened(study.upstreams)
    rows = [
        Row(
            [
                each.route,
                f"{each.upstream} {each.operation}".strip(),
                count(len(each.calls)),
                *map(_pair, (each.seen, each.own, each.wire, each.late)),
                share(each.inflated_frac) if each.known else "-",
                f"{count(each.late_resumed + each.late_replied)} of {count(each.with_deadline)}"
                if each.with_deadline
                else "-",
                count(each.failed),
            ]
        )
        for each in found
    ]
    heads = ["route", "upstream", "calls", "span p50 / p99", "its clock p50 / p99", "corrected p50 / p99"]
    heads += ["in the process p50 / p99", "span inflated by", "data after its deadline", "failed"]
    return joined([details("All calls", table(heads, rows, "upstreams", names=2), more)])


def _branches(study: ReportStudy) -> Html:
    if not study.branches:
        return Html("")
    found, more = shortened(study.branches)
    rows = [
        Row(
            [
                each.route,
                f"{each.upstream} {each.operation}".strip(),
                f"{count(each.missed)} of {count(each.calls)}",
                share(each.missed_frac),
                count(each.was_ready),
            ]
        )
        for each in found
    ]
    heads = ["route", "branch", "after the job's deadline", "of its calls", "reply was there in time"]
    told = "data that reached the code after the job's own deadline"
    return joined([figure("Branches that miss the deadline", table(heads, rows, "branches", names=2), told), more])


def _held(study: ReportStudy) -> Html:
    if not study.recording.held:
        return Html("")
    found, more = shortened(sorted(study.recording.held, key=lambda row: -row.ns))
    rows = [
        Row([row.call, row.route, _innermost(row.stack), count(row.calls), duration(row.ns), duration(row.longest_ns)])
        for row in found
    ]
    heads = ["call", "route", "from", "calls", "time", "longest"]
    told = "the thread slept in a system call, and every job of its loop with it: no CPU profile shows this"
    drawn = table(heads, rows, "calls that blocked a loop", names=3)
    return joined([figure("Calls that blocked a whole loop", drawn, told), more])


def _innermost(stack: str) -> str:
    found = frames(stack)
    return f"{found[-1].function} ({found[-1].file}:{found[-1].line})" if found else "-"


def _pair(clock: Clock | None) -> str:
    return f"{duration(clock.p50_ns)} / {duration(clock.p99_ns)}" if clock else "-"


def clocks_view(study: ReportStudy) -> Html:
    """The section; empty when no clock but the handler's was read."""
    found = [each for each in study.clocks if each.clocks != ["handler"]]
    if not found:
        return Html("")
    groups: dict[str, list[Whisker]] = {}
    for each in found[:_DRAWN]:
        clocks = {"handler": each.handler, "spawn": each.spawn, "arrival": each.arrival}
        groups[each.route] = [
            Whisker(name, clock.p50_ns, clock.p50_ns, clock.p99_ns, _pair(clock), "", name == "arrival")
            for name, clock in clocks.items()
            if clock
        ]
    values = [row.low for rows in groups.values() for row in rows] + [
        row.high for rows in groups.values() for row in rows
    ]
    axis = LogAxis(max(1e3, min(values) * 0.9), max(values) * 1.1, LEFT, RIGHT)
    chosen, more = shortened(found)
    rows = [
        Row(
            [
                each.route,
                ", ".join(each.clocks),
                count(each.jobs),
                *map(_pair, (each.handler, each.spawn, each.arrival)),
            ]
        )
        for each in chosen
    ]
    heads = ["route", "arrival read from", "jobs", "handler p50 / p99", "spawn p50 / p99", "arrival p50 / p99"]
    return section(
        "Which clock",
        wide(whiskers(groups, axis, "p50 and p99 by the clock that starts the latency", duration)),
        details("All routes", table(heads, rows, "clocks", names=2), more),
        about="p50 (dot) to p99 (end of the bar) of the same jobs. Handler: from the first instruction of the "
        "application, what its own metrics say. Arrival: from when the request was there, what clients feel.",
        name="clocks",
    )


def slowest_view(study: ReportStudy) -> Html:
    """The section: the first ones open, the rest one click away."""
    if not study.slowest:
        return Html("")
    figures = [_figure(study, story) for story in study.stories]
    kinds = {kind for job in study.slowest for kind, ns in parts(job).items() if ns > 0.002 * job.latency_ns}
    rest = details(f"{len(figures) - _OPEN} more", *figures[_OPEN:]) if len(figures) > _OPEN else ""
    return section(
        "The slowest jobs",
        kinds_legend(kinds),
        joined(figures[:_OPEN]),
        rest,
        about="From arrival to answer; a row for each thread, greenlet or task that worked for the job. Waiting says "
        "who ran instead. Below, its calls by three clocks: yours, from asking until the code went on; the wire's, "
        "until the reply was there; the upstream's own, as its reply says, drawn in the middle of the wire's.",
        name="slowest",
    )


def _figure(study: ReportStudy, story: Story) -> Html:
    job = story.job
    stretches = [_stretch(study, each, job) for each in story.segments if each.to_ns > each.from_ns]
    stretches += [each for row, call in _laned(story.calls) for each in _clocks(row, call, job)]
    title = f"job {job.job}, {job.route}: {duration(job.latency_ns)}"
    spent = ", ".join(f"{named(kind)} {duration(ns)}" for kind, ns in parts(job).items() if ns > 0)
    trace = f", trace {story.trace}" if story.trace else ""
    aside = f"{duration(job.latency_ns)}, status {job.status}{trace}: {spent}"
    deadline_ns = job.deadline_ns - job.arrival_ns if job.deadline_ns else 0
    drawn = figure(job.route or "(no route)", wide(waterfall(stretches, job.latency_ns, title, deadline_ns)), aside)
    said = story_sentence(story, study.places)
    return joined([drawn, paragraph(said, "note") if said else Html(""), _calls_of(study, story)])


def _stretch(study: ReportStudy, each: Segment, job: Job) -> Stretch:
    kind = each.state if each.state in ("cpu", "io") else each.kind or "residual"
    what = {"cpu": "CPU", "io": each.kind or "I/O"}.get(each.state, f"{each.state}: {each.kind}")
    said = f"{what} {each.label}".strip()
    if each.state == "wait" and each.label:
        said = f"{what}, for {_culprits(study, each, job) or each.label}"
    return Stretch(each.unit, kind, each.from_ns - job.arrival_ns, each.to_ns - job.arrival_ns, said)


def _culprits(study: ReportStudy, each: Segment, job: Job) -> str:
    """What had the CPU in a long wait, the largest two; "" = it is too short to ask."""
    if each.to_ns - each.from_ns < _LONG_FRAC * job.latency_ns:
        return ""
    found = study.recording.culprits(job.process, job.job, each.from_ns, each.to_ns)[:2]
    return ", ".join(f"{name} {duration(ns)}" for name, ns in found if ns * 10 >= each.to_ns - each.from_ns)


def _laned(calls: Sequence[CallStory]) -> Iterator[tuple[int, CallStory]]:
    """Each call, by begin, with the first row in which none of the others is still going on."""
    ends_ns: list[int] = []
    for each in calls:
        row = next((row for row, to_ns in enumerate(ends_ns) if to_ns <= each.call.from_ns), len(ends_ns))
        ends_ns[row : row + 1] = [each.call.to_ns]
        yield row, each


def _clocks(row: int, story: CallStory, job: Job) -> list[Stretch]:
    """One call three times, each clock in lanes of its own."""
    call, beside = story.call, f" {row + 1}" if row else ""
    name = call.operation or call.upstream
    times = [(_APPLICATION, "seen", call.from_ns, call.to_ns, story.seen_ns)]
    if call.ready_ns:
        times.append((_WIRE, "io", call.from_ns, call.ready_ns, call.wire_ns))
    if (own := story.own_span_ns) is not None:
        times.append((_UPSTREAM, "own", *own, call.own_ns))
    return [
        Stretch(f"{clock}{beside}", kind, from_ns - job.arrival_ns, to_ns - job.arrival_ns, f"{name} {duration(ns)}")
        for clock, kind, from_ns, to_ns, ns in times
    ]


def _calls_of(study: ReportStudy, story: Story) -> Html:
    if not story.calls:
        return Html("")
    heads = ["call", "upstream's clock", "the wire", "your clock", "times", "waited for", "at"]
    rows = [
        Row(
            [
                f"{each.call.upstream} {each.call.operation}".strip(),
                duration(each.call.own_ns) if each.call.own_ns else "-",
                duration(each.call.wire_ns) if each.call.ready_ns else "-",
                duration(each.seen_ns),
                factor(each.factor) if each.factor else "-",
                ", ".join(f"{name} {duration(ns)}" for name, ns in each.culprits[:2]) or "-",
                _place(study, each),
            ],
            "late" if each is story.worst and each.factor >= _WORTH_FACTOR else "",
        )
        for each in story.calls[:_MOST_CALLS]
    ]
    more = len(story.calls) - len(rows)
    drawn = table(heads, rows, f"calls of job {story.job.job}", names=1)
    return details(f"Its calls, {len(story.calls)}" + (f", the first {len(rows)}" if more else ""), drawn)


def _place(study: ReportStudy, each: CallStory) -> str:
    name = each.culprits[0][0] if each.culprits else ""
    return study.places[name].place if name in study.places else "-"
