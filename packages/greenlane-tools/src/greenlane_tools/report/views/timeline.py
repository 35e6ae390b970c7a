"""Threads, loops and jobs over time, around the slowest job: data for `page/charts/timeline.js`, which draws it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from greenlane_tools import page
from greenlane_tools.page.blocks import note, section
from greenlane_tools.page.html import Html, element, json_script
from greenlane_tools.page.quantities import count
from greenlane_tools.reader.rows import Job
from greenlane_tools.report.split import lane_of
from greenlane_tools.report.study import ReportStudy

__all__ = ["timeline_script", "timeline_view"]

#: A browser draws this many within 2 s. The parts of a job take more room: only those near the slowest jobs have them.
_MOST_JOBS: Final = 100_000
_MOST_WITH_PARTS: Final = 2_000
#: Colours of routes, by turns.
_COLOURS: Final = ("#5b7fa6", "#7d8f5a", "#a07a55", "#8a6f9e", "#4f8f8b", "#a5697b")
_BUTTONS: Final = {
    "s": "slowest job",
    "+": "zoom in",
    "-": "zoom out",
    "Home": "whole",
    "n": "next",
    "p": "previous",
}


Numbers = defaultdict[str, int]


def timeline_view(study: ReportStudy) -> Html:
    """The section; empty without jobs."""
    slowest = max(study.recording.jobs, key=lambda job: job.latency_ns, default=None)
    if slowest is None:
        return Html("")
    jobs = _nearest(study.recording.jobs, slowest, _MOST_JOBS)
    left_out = len(study.recording.jobs) - len(jobs)
    buttons = [element("button", said, type="button", data_key=key) for key, said in _BUTTONS.items()]
    search = Html('<input type="search" class="find" placeholder="search routes" aria-label="search routes">')
    told = element("p", class_="told note", aria_live="polite")
    canvas = element(
        "canvas",
        class_="lanes",
        tabindex="0",
        role="application",
        aria_label="timeline: arrows move, plus and minus zoom, s the slowest job, n and p the next and previous, "
        "Home shows all",
    )
    body = element("div", element("div", search, *buttons, class_="bar"), told, canvas, class_="timeline")
    return section(
        "Timeline",
        body,
        json_script("timeline-data", _data(study, jobs, slowest)),
        note(f"The {count(len(jobs))} jobs nearest to the slowest are here, {count(left_out)} are not.")
        if left_out
        else "",
        about="A lane for each thread or loop with what ran, below it the jobs; in the chosen one an arrow leads from "
        "each wait to what ran meanwhile. Drag moves, Ctrl and the wheel zoom; with the keyboard: arrows, + and -, s, "
        f"n, p, Home. What each job did is known here for the {count(_MOST_WITH_PARTS)} jobs nearest to the slowest.",
        name="timeline",
    )


def timeline_script() -> str:
    """Its script, for the end of the page."""
    return (Path(page.__file__).parent / "charts" / "timeline.js").read_text(encoding="utf-8")


def _nearest(jobs: Sequence[Job], to: Job, most: int) -> Sequence[Job]:
    """This many jobs whose time is nearest to that of one, by arrival."""
    near = sorted(jobs, key=lambda job: max(0, job.arrival_ns - to.end_ns, to.arrival_ns - job.end_ns))
    return sorted(near[:most], key=lambda job: job.arrival_ns)


def _data(study: ReportStudy, jobs: Sequence[Job], slowest: Job) -> dict[str, Any]:
    # Numbers of names: each is written once.
    routes, lanes, labels = _numbers(), _numbers(), _numbers()
    start_ns = min(job.arrival_ns for job in jobs)
    with_parts = {(job.process, job.job) for job in _nearest(jobs, slowest, _MOST_WITH_PARTS)}
    pids = {process.number: process.pid for process in study.recording.processes}
    by_process: dict[int, dict[str, Any]] = {}
    begins: dict[int, int] = defaultdict(int)
    for job in jobs:
        told = by_process.setdefault(
            job.process, {"name": str(pids.get(job.process, job.process)), "jobs": [], "parts": {}}
        )
        begin = (job.arrival_ns - start_ns) // 1000
        if (job.process, job.job) in with_parts:
            told["parts"][len(told["jobs"]) // 3] = [
                [
                    part.state,
                    part.kind,
                    (part.from_ns - start_ns) // 1000,
                    (part.to_ns - start_ns) // 1000,
                    lanes[lane_of(job, part.unit)],
                    labels[part.label],
                ]
                for part in study.recording.segments(job.process, job.job)
            ]
        # Each begin is relative to the one before: short numbers.
        told["jobs"] += [begin - begins[job.process], (job.end_ns - start_ns) // 1000 - begin, routes[job.route]]
        begins[job.process] = begin
    end_us = max((job.end_ns - start_ns) // 1000 for job in jobs)
    return {
        "processes": list(by_process.values()),
        "routes": list(routes),
        "lanes": list(lanes),
        "labels": list(labels),
        "whole": [0, max(1, end_us)],
        "shown": [(slowest.arrival_ns - start_ns) // 1000, (slowest.end_ns - start_ns) // 1000],
        "wall_ms": _wall_ms(study, start_ns),
        "colours": _COLOURS,
    }


def _numbers() -> Numbers:
    found: Numbers = defaultdict()
    found.default_factory = found.__len__
    return found


def _wall_ms(study: ReportStudy, at_ns: int) -> float | None:
    """The wall clock's time of a moment, ms since 1970; None = the recording does not say."""
    for process in study.recording.processes:
        started, unix = process.about.get("started_ns"), process.about.get("started_unix_ns")
        if isinstance(started, int) and isinstance(unix, int):
            return (at_ns - started + unix) / 1e6
    return None
