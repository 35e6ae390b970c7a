"""The slowest jobs, each from its arrival to its answer: its units, and its calls by three clocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from greenlane_tools.page.blocks import Row, details, figure, paragraph, section, table, wide
from greenlane_tools.page.charts.waterfall import Stretch, waterfall
from greenlane_tools.page.html import Html, joined
from greenlane_tools.page.quantities import duration, factor
from greenlane_tools.reader.rows import Job, Segment
from greenlane_tools.report.parts import named, parts
from greenlane_tools.report.story import CallStory, Story, story_sentence
from greenlane_tools.report.study import Study
from greenlane_tools.report.views.latency import kinds_legend

__all__ = ["view"]

_OPEN = 3
#: Calls of one job in its table.
_MOST_CALLS = 20
#: The worst call is marked when your clock reads at least so many times the upstream's.
_WORTH_FACTOR = 2.0
#: A wait of at least this share of a job names two culprits; of shorter ones the first is enough.
_LONG_FRAC = 0.05
_APPLICATION, _WIRE, _UPSTREAM = "your clock", "the wire", "upstream's clock"


def view(study: Study) -> Html:
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


def _figure(study: Study, story: Story) -> Html:
    job = story.job
    stretches = [_stretch(study, each, job) for each in story.segments if each.to_ns > each.from_ns]
    stretches += [each for row, call in _rows(story.calls) for each in _clocks(row, call, job)]
    title = f"job {job.job}, {job.route}: {duration(job.latency_ns)}"
    spent = ", ".join(f"{named(kind)} {duration(ns)}" for kind, ns in parts(job).items() if ns > 0)
    trace = f", trace {story.trace}" if story.trace else ""
    aside = f"{duration(job.latency_ns)}, status {job.status}{trace}: {spent}"
    deadline_ns = job.deadline_ns - job.arrival_ns if job.deadline_ns else 0
    drawn = figure(job.route or "(no route)", wide(waterfall(stretches, job.latency_ns, title, deadline_ns)), aside)
    said = story_sentence(story, study.places)
    return joined([drawn, paragraph(said, "note") if said else Html(""), _calls(study, story)])


def _stretch(study: Study, each: Segment, job: Job) -> Stretch:
    kind = each.state if each.state in ("cpu", "io") else each.kind or "residual"
    what = {"cpu": "CPU", "io": each.kind or "I/O"}.get(each.state, f"{each.state}: {each.kind}")
    said = f"{what} {each.label}".strip()
    if each.state == "wait" and each.label:
        said = f"{what}, for {_culprits(study, each, job) or each.label}"
    return Stretch(each.unit, kind, each.from_ns - job.arrival_ns, each.to_ns - job.arrival_ns, said)


def _culprits(study: Study, each: Segment, job: Job) -> str:
    """Who had the CPU in a long wait, the largest two; "" = it is too short to ask."""
    if each.to_ns - each.from_ns < _LONG_FRAC * job.latency_ns:
        return ""
    found = study.recording.culprits(job.process, job.job, each.from_ns, each.to_ns)[:2]
    return ", ".join(f"{name} {duration(ns)}" for name, ns in found if ns * 10 >= each.to_ns - each.from_ns)


def _rows(calls: Sequence[CallStory]) -> Iterator[tuple[int, CallStory]]:
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


def _calls(study: Study, story: Story) -> Html:
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


def _place(study: Study, each: CallStory) -> str:
    name = each.culprits[0][0] if each.culprits else ""
    return study.places[name].place if name in study.places else "-"
