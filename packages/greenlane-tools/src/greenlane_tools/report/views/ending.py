"""What was running at the end, process by process."""

from __future__ import annotations

from collections.abc import Sequence

from greenlane_tools.page.blocks import Row, details, paragraph, section, table
from greenlane_tools.page.html import Html, element, joined
from greenlane_tools.page.quantities import duration
from greenlane_tools.report.ending import Ending, ending_sentence, place_of
from greenlane_tools.report.places import frames
from greenlane_tools.report.study import Study
from greenlane_tools.report.views.limits import shortened

__all__ = ["view"]


def view(study: Study) -> Html:
    """The section; empty when no process ended with a job in progress."""
    if not study.endings:
        return Html("")
    chosen, more = shortened(study.endings, 12)
    return section(
        "What was running at the end",
        joined([_one(each) for each in chosen]),
        more,
        about="Jobs whose answer had not left when their process ended. They are in no other figure of this page, but "
        "for those that were closed when their worker was aborted.",
        name="end",
    )


def _one(found: Ending) -> Html:
    heads = ["route", "in progress for", "running for", "at", "CPU", "I/O", "wait", "unknown since"]
    chosen, more = shortened(found.jobs)
    rows = []
    for job in chosen:
        frame, last_ns = place_of(job), found.at_ns - job.last_ns
        cells = [job.route or "(no route)", duration(found.at_ns - job.arrival_ns)]
        cells += [duration(job.running_ns) if job.running_ns else "-", frame.place if frame else "-"]
        cells += [duration(job.cpu_ns), duration(sum(job.io_ns.values())), duration(sum(job.wait_ns.values()))]
        rows.append(Row([*cells, duration(last_ns) if last_ns > 0 else "-"]))
    drawn = table(heads, rows, f"jobs in progress at the end of process {found.process.pid}")
    return joined([paragraph(ending_sentence(found)), drawn, more, _stack(found)])


def _stack(found: Ending) -> Html:
    runner = found.runner
    if runner is None or not runner.stack:
        return Html("")
    lines: Sequence[str] = [f"{each.function} ({each.file}:{each.line})" for each in frames(runner.stack)]
    return details("Its stack, outermost first", element("pre", "\n".join(lines), class_="wide"))
