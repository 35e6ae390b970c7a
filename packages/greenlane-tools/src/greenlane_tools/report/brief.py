"""The report on one screen: the sentence, the culprit, its line, what to do, and the command that proves it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from greenlane_tools.page.quantities import duration, share
from greenlane_tools.report.culprits import called
from greenlane_tools.report.gain import permits_in_force
from greenlane_tools.report.study import ReportStudy

__all__ = ["brief_lines"]

#: More findings, or notes of what the recording lacks, do not fit.
_MOST_FINDINGS: Final = 3
_MOST_NOTES: Final = 3
#: What to do by culprit, where that is not a route.
_REMEDIES: Final = {
    "os": "give it more cores, or fewer neighbours: nothing inside the process helps",
    "gc": "call gc.freeze() after start-up, or make fewer objects in cycles",
    "native": "move the C call that holds the GIL to another process: no permit shortens it",
    "unseen": "find the call with `strace -c -f -w -p PID`; on a loop, move it to a thread",
    "unknown": "record again while it hurts: this recording does not name the cause",
}
#: Jobs wait for workers that are blocked, not for CPU.
_OCCUPIED: Final = "more threads, an event loop or a faster upstream: its workers are blocked, so permits do not help"
_OCCUPIED_CELERY: Final = (
    "start the worker with `greenlane celery APP --key KEY`: tasks that wait for one upstream no longer hold all slots"
)


def brief_lines(study: ReportStudy, file: str) -> Iterator[str]:
    """The lines.

    Args:
        file: the recording as the command was told it.
    """
    yield study.verdict
    yield from study.unobserved.splitlines()
    for note in study.recording.notes[:_MOST_NOTES]:
        yield f"note     {note}"
    worst = max(study.matrix.cells.items(), key=lambda cell: cell[1], default=None)
    if worst is None:
        yield "proof    greenlane report " + shlex.quote(file)
        return
    (victim, culprit), ns = worst
    place = study.places.get(culprit)
    waited = f"{victim} waited {duration(ns)}, {share(study.matrix.share(victim, culprit))} of its wait"
    yield f"culprit  {called(culprit)}: {waited}"
    if place is not None:
        yield f"line     {place.place} in {place.function}"
    yield f"do       {_remedy(study, culprit)}"
    for finding in study.findings[:_MOST_FINDINGS]:
        yield f"also     {finding.said}"
    yield f"proof    greenlane report {shlex.quote(file)} --route {shlex.quote(victim)}"


def _remedy(study: ReportStudy, culprit: str) -> str:
    if culprit in _REMEDIES:
        return _REMEDIES[culprit]
    blocked = next((row for row in study.recording.held if row.route == culprit), None)
    if blocked is not None and blocked.ns >= sum(row.ns for row in study.recording.blame if row.culprit == culprit) / 4:
        return f"call {blocked.call} without blocking the loop: an asynchronous client, or a thread"
    if study.contention.verdict == "occupied":
        return _OCCUPIED_CELERY if any(job.host == "celery" for job in study.recording.jobs) else _OCCUPIED
    if study.contention.verdict == "overcommit":
        return "give it more processes, or fewer jobs in each: no slice is long, there are many"
    if any(job.route == culprit for job in study.recording.jobs):
        if permits_in_force(study.recording.jobs):
            return f"shorten that line, or give {culprit} processes of its own: jobs take turns already"
        return f"shorten that line, give {culprit} processes of its own, or let jobs take turns: {study.remedy}"
    return "move that work out of the process"
