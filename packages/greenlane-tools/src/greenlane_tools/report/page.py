"""The study as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from greenlane_tools.page.blocks import Card, cards, details, note, paragraph, section
from greenlane_tools.page.document import document
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import count, duration, share
from greenlane_tools.report.overhead import LEFT_OUT, overhead_sentence
from greenlane_tools.report.study import ReportStudy
from greenlane_tools.report.views.calls import calls_view, clocks_view, slowest_view
from greenlane_tools.report.views.time import latency_view, tail_view
from greenlane_tools.report.views.timeline import timeline_script, timeline_view
from greenlane_tools.report.views.waits import blame_view, culprits_view, own_view
from greenlane_tools.report.views.workers import ending_view, workers_view

__all__ = ["page"]

#: A sentence of more letters is set smaller.
_LONG: Final = 190


def page(study: ReportStudy, name: str, environment: Mapping[str, object]) -> str:
    """The whole page.

    Args:
        name: of the recording, as the reader knows it.
        environment: of the command that made the page; printed at the foot.
    """
    sections = {
        "latency": ("where the time went", latency_view(study)),
        "tail": ("the slow ones", tail_view(study)),
        "timeline": ("timeline", timeline_view(study)),
        "own": ("own time", own_view(study)),
        "blame": ("who made whom wait", blame_view(study)),
        "upstreams": ("upstreams", calls_view(study)),
        "slowest": ("slowest jobs", slowest_view(study)),
        "end": ("running at the end", ending_view(study)),
        "culprits": ("culprits' code", culprits_view(study)),
        "workers": ("workers and time", workers_view(study)),
        "clocks": ("clocks", clocks_view(study)),
        "about": ("about", _about(study, environment)),
    }
    verdict = study.verdict
    header = [
        note(f"greenlane report {name}"),
        element("h1", verdict.sentence, class_="long" if len(verdict.sentence) > _LONG else None),
        element("pre", study.unobserved) if study.unobserved else "",
        paragraph(f"Do: {verdict.remedy.text}. Check: {verdict.remedy.check}", "lead") if study.routes else "",
        *(paragraph(said, "warning") for said in _warnings(study)),
        cards(_cards(study)) if study.routes else "",
        element("ul", *(element("li", said) for said in verdict.notes), class_="findings") if verdict.notes else "",
    ]
    links = {name: said for name, (said, body) in sections.items() if body}
    bodies = [body for _, body in sections.values()]
    return document(f"greenlane report {name}", header, bodies, links=links, script=timeline_script())


def _cards(study: ReportStudy) -> list[Card]:
    jobs = sum(len(split.jobs) for split in study.routes)
    latency_ns = sum(split.latency_ns for split in study.routes) or 1
    waited = sum(split.wait_ns for split in study.routes) / latency_ns
    seconds = max(1, study.to_ns - study.from_ns) / 1e9
    workers = len(study.balance.workers)
    found = [
        Card("jobs", count(jobs), f"{jobs / seconds:.1f} a second, {workers} worker{'s' * (workers != 1)}"),
        Card("recorded", duration(study.to_ns - study.from_ns), f"{len(study.routes)} routes"),
        Card("waiting", share(waited), "of all latency", "bad" if waited >= 0.3 else ""),
    ]
    scaling = study.scaling
    if scaling.hottest_busy_frac is not None:
        mean = f"mean of all {share(scaling.mean_busy_frac or 0)}"
        mood = "bad" if scaling.hottest_busy_frac >= 0.9 else ""
        found.append(Card("hottest worker", share(scaling.hottest_busy_frac), f"of a core; {mean}", mood))
    if scaling.lag_p99_ns is not None:
        found.append(Card("lag p99", duration(scaling.lag_p99_ns), "largest lateness of each second"))
    if scaling.queue_wait_p99_ns is not None:
        found.append(Card("queue wait p99", duration(scaling.queue_wait_p99_ns), "before the first instruction"))
    return found


def _warnings(study: ReportStudy) -> list[str]:
    lost = sum(process.lost_events for process in study.recording.processes)
    torn = sum(process.torn_bytes for process in study.recording.processes)
    found = []
    if lost:
        found.append(f"{count(lost)} events were lost in full buffers: sums are lower bounds where they belong.")
    if torn:
        found.append(f"{count(torn)} bytes at the end of the recording are torn: its last moment is missing.")
    return [*found, *study.recording.notes]


def _about(study: ReportStudy, environment: Mapping[str, object]) -> Html:
    processes = [
        {
            "pid": each.pid,
            "seconds": round((each.to_ns - each.from_ns) / 1e9, 3),
            "lost_events": each.lost_events,
            "torn_bytes": each.torn_bytes,
            **each.about,
        }
        for each in study.recording.processes
    ]
    uncertain = sum(split.uncertain_ns for split in study.routes)
    latency_ns = sum(split.latency_ns for split in study.routes) or 1
    residual = sum(abs(job.residual_ns) for split in study.routes for job in split.jobs)
    return section(
        "What this is, and what it cannot say",
        note(
            "CPU + I/O + wait + residual is the latency of each job, exactly. I/O: blocked on something outside until "
            "it was ready. Wait: it could have run, and something else did. Residual here: "
            f"{share(residual / latency_ns)} of all latency. Known only as a bound: {share(uncertain / latency_ns)} is "
            "counted as I/O and may have been wait. Stacks are sampled only while a job waits."
        ),
        note(f"{overhead_sentence(study.overhead)} {LEFT_OUT}") if study.overhead else "",
        details("Processes", _json(processes)),
        details("Made by", _json(environment)),
        name="about",
    )


def _json(value: object) -> Html:
    return element("pre", element("code", json.dumps(value, indent=1, default=str)), class_="wide")
