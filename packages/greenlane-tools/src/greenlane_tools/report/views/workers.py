"""Workers against each other, and what was running at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from greenlane_tools.page.blocks import Row, details, figure, note, paragraph, section, table, wide
from greenlane_tools.page.charts.time_lines import MOST_LINES, nanoseconds_step, time_lines
from greenlane_tools.page.html import Html, element, joined
from greenlane_tools.page.quantities import count, duration, share
from greenlane_tools.report.culprits import frames
from greenlane_tools.report.ending import ProcessEnding, ending_sentence, place_of
from greenlane_tools.report.study import ReportStudy
from greenlane_tools.report.views.time import shortened
from greenlane_tools.report.workers import RecordedWorker, busy_over_time, lag_over_time

__all__ = ["ending_view", "workers_view"]


def workers_view(study: ReportStudy) -> Html:
    """The section."""
    if not study.balance.workers:
        return Html("")
    samples = study.recording.samples
    lag = _named(study, lag_over_time(samples, study.from_ns))
    busy = _named(study, busy_over_time(samples, study.from_ns))
    hidden = len(study.balance.workers) - MOST_LINES
    return section(
        "Workers and time",
        figure("Lag", wide(time_lines(lag, "lag over time", duration, step=nanoseconds_step)), "largest of each second")
        if lag
        else "",
        figure(
            "Load", wide(time_lines(busy, "CPU over time", share, high=_top(busy))), "CPU by wall time, 1 core = 100 %"
        )
        if busy
        else "",
        note(f"The {MOST_LINES} workers with the most jobs are drawn, {hidden} are not.") if hidden > 0 else "",
        _table(study),
        _scaling(study),
        name="workers",
    )


def _named(
    study: ReportStudy, found: Mapping[int, Sequence[tuple[float, float]]]
) -> dict[str, Sequence[tuple[float, float]]]:
    shown = study.balance.workers[:MOST_LINES]
    return {f"worker {each.pid}": found[each.process] for each in shown if found.get(each.process)}


def _top(found: Mapping[str, Sequence[tuple[float, float]]]) -> float:
    return max(1.0, *(value for points in found.values() for _, value in points))


def _table(study: ReportStudy) -> Html:
    balance = study.balance
    chosen, more = shortened(balance.workers)
    heads = ["worker", "jobs", "of all", "busy", "busiest second", "lag p50 / p99", "in progress", "p99", "OS wait"]
    heads += ["GIL waking", "memory"]
    drawn = table(heads, [Row(_cells(each)) for each in chosen], "workers")
    evenness = ""
    if balance.max_to_mean is not None and len(balance.workers) > 1:
        evenness = (
            f"The busiest has {balance.max_to_mean:.2f} times the mean of the jobs; Gini {balance.gini or 0:.2f}."
        )
    return Html(drawn + more + (note(evenness) if evenness else ""))


def _cells(each: RecordedWorker) -> list[str]:
    lag = "-" if each.lag_p50_ns is None else f"{duration(each.lag_p50_ns)} / {duration(each.lag_p99_ns or 0)}"
    return [
        str(each.pid),
        count(each.jobs),
        share(each.jobs_frac),
        _share(each.busy_frac),
        _share(each.busiest_second_frac),
        lag,
        f"{each.in_progress:.1f}",
        "-" if each.latency_p99_ns is None else duration(each.latency_p99_ns),
        _share(each.os_wait_frac),
        _share(each.waking_frac),
        f"{each.rss_bytes / 1e6:.0f} MB" if each.rss_bytes else "-",
    ]


def _share(frac: float | None) -> str:
    return "-" if frac is None else share(frac)


def _scaling(study: ReportStudy) -> Html:
    found = study.scaling
    if found.lag_p99_ns is None and found.queue_wait_p99_ns is None:
        return Html("")
    said = [
        f"lag p99 {duration(found.lag_p99_ns)}" if found.lag_p99_ns is not None else "",
        f"queue wait p99 {duration(found.queue_wait_p99_ns)}" if found.queue_wait_p99_ns is not None else "",
        f"hottest worker {share(found.hottest_busy_frac)} of a core" if found.hottest_busy_frac is not None else "",
    ]
    mean = f"; a dashboard's mean of all is {share(found.mean_busy_frac)}" if found.mean_busy_frac is not None else ""
    return note(f"Signals to scale by: {', '.join(each for each in said if each)}{mean}.")


def ending_view(study: ReportStudy) -> Html:
    """The section; empty when no process ended with a job in progress."""
    if not study.endings:
        return Html("")
    chosen, more = shortened(study.endings, 12)
    return section(
        "What was running at the end",
        joined([_one(each) for each in chosen]),
        more,
        about="Jobs whose answer had not left when their process ended. They are in no other figure of this page, "
        "except those that were closed when their worker was aborted.",
        name="end",
    )


def _one(found: ProcessEnding) -> Html:
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


def _stack(found: ProcessEnding) -> Html:
    runner = found.runner
    if runner is None or not runner.stack:
        return Html("")
    lines: Sequence[str] = [f"{each.function} ({each.file}:{each.line})" for each in frames(runner.stack)]
    return details("Its stack, outermost first", element("pre", "\n".join(lines), class_="wide"))
