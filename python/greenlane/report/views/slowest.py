"""The slowest jobs, each from its arrival to its answer."""

from __future__ import annotations

from greenlane.page.blocks import details, figure, section, wide
from greenlane.page.charts.waterfall import Stretch, waterfall
from greenlane.page.html import Html, joined
from greenlane.page.quantities import duration
from greenlane.record.rows import Job, Segment
from greenlane.report.parts import named, parts
from greenlane.report.study import Study
from greenlane.report.views.latency import kinds_legend

__all__ = ["view"]

_OPEN = 3


def view(study: Study) -> Html:
    """The section: the first ones open, the rest one click away."""
    if not study.slowest:
        return Html("")
    figures = [_figure(study, job) for job in study.slowest]
    kinds = {kind for job in study.slowest for kind, ns in parts(job).items() if ns > 0.002 * job.latency_ns}
    rest = details(f"{len(figures) - _OPEN} more", *figures[_OPEN:]) if len(figures) > _OPEN else ""
    return section(
        "The slowest jobs",
        kinds_legend(kinds),
        joined(figures[:_OPEN]),
        rest,
        about="From arrival to answer; a row for each thread, greenlet or task that worked for the job. Waiting says "
        "who ran instead.",
        name="slowest",
    )


def _figure(study: Study, job: Job) -> Html:
    segments = study.recording.segments(job.process, job.job)
    stretches = [_stretch(each, job) for each in segments if each.to_ns > each.from_ns]
    title = f"job {job.job}, {job.route}: {duration(job.latency_ns)}"
    spent = ", ".join(f"{named(kind)} {duration(ns)}" for kind, ns in parts(job).items() if ns > 0)
    aside = f"{duration(job.latency_ns)}, status {job.status}: {spent}"
    deadline_ns = job.deadline_ns - job.arrival_ns if job.deadline_ns else 0
    return figure(job.route or "(no route)", wide(waterfall(stretches, job.latency_ns, title, deadline_ns)), aside)


def _stretch(each: Segment, job: Job) -> Stretch:
    kind = each.state if each.state in ("cpu", "io") else each.kind or "residual"
    what = {"cpu": "CPU", "io": each.kind or "I/O"}.get(each.state, f"{each.state}: {each.kind}")
    said = f"{what} {each.label}".strip() if each.state != "wait" or not each.label else f"{what}, for {each.label}"
    return Stretch(each.unit, kind, each.from_ns - job.arrival_ns, each.to_ns - job.arrival_ns, said)
