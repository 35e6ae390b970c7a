"""Who made whom wait, the culprits' code, and what permits would change."""

from __future__ import annotations

from collections.abc import Sequence

from greenlane_tools.page.axis import LogAxis
from greenlane_tools.page.blocks import Row, details, note, paragraph, section, table, wide
from greenlane_tools.page.charts.flame_graph import flame_graph
from greenlane_tools.page.charts.heat_map import heat_map
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.html import Html, joined
from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.report.culprits import CulpritCode, by_function, by_work, job_cpu, stacks_of
from greenlane_tools.report.gain import MEASURED, Gain
from greenlane_tools.report.own import spent
from greenlane_tools.report.study import ReportStudy
from greenlane_tools.report.turns import counted_turns
from greenlane_tools.report.views.time import shortened

__all__ = ["blame_view", "culprits_view", "gain_view", "own_view"]

_SIDE = 10
_DRAWN = 8


def blame_view(study: ReportStudy) -> Html:
    """The section."""
    if not study.matrix.whole_ns:
        return _turns(study)
    drawn = study.matrix.cut(_SIDE)
    found, more = shortened(sorted(study.recording.blame, key=lambda row: -row.ns))
    rows = [
        Row(
            [
                row.victim,
                row.culprit + (f", phase {row.phase}" if row.phase >= 0 else ""),
                study.places[row.culprit].place if row.culprit in study.places else "-",
                row.kind,
                duration(row.ns),
                share(row.ns / max(1, study.matrix.by_victim[row.victim])),
                count(row.waits),
                count(row.slices),
                duration(row.longest_ns),
            ]
        )
        for row in found
    ]
    heads = ["who waited", "for whom", "where", "wait", "time", "of its wait", "waits", "slices", "longest slice"]
    return section(
        "Who made whom wait",
        wide(heat_map(drawn.victims, drawn.culprits, drawn.cells, "waiting by victim (rows) and culprit (columns)")),
        _uncut(study),
        details("All rows", table(heads, rows, "blame", names=3), more),
        _turns(study),
        about="Rows waited, columns ran meanwhile. A cell is the time that all jobs of the row together waited for the "
        "column.",
        name="blame",
    )


def _turns(study: ReportStudy) -> Html:
    if not study.turns:
        return Html("")
    chosen, more = shortened(study.turns)
    rows = [
        Row(
            [
                *(each.route, count(each.jobs), count(each.waited)),
                *(duration(each.pays_ns), duration(each.gains_ns)),
                *map(count, counted_turns(each).values()),
            ]
        )
        for each in chosen
    ]
    heads = ["route", "jobs", "that waited", "pays", "gains"]
    heads += counted_turns(study.turns[0])
    said = (
        "A route pays the time that its jobs waited for permits. It gains what others waited while it computed: "
        "without permits they would have had the core at the same time."
    )
    how = (
        " Express turns ran beside a longer one. Shared turns used their share of CPU (400 ms), then computed beside "
        "others. Charged phases were expected to be light, but were heavy. Skipped phases ran without a permit: a lock "
        "was held, the wait was too long, or the mode changed."
    )
    shown = [note(said + how if study.turns[0].turns else said), table(heads, rows, "turns")]
    return details("Turns for permits", joined(shown), more)


def _uncut(study: ReportStudy) -> Html:
    found = study.uncut
    if not found.gil_wait_ns:
        return Html("")
    part = f"about {share(found.frac)}" if found.uncut_ns else "nothing"
    return paragraph(
        f"Waiting for the GIL: {duration(found.gil_wait_ns)}. In the {count(found.jobs)} jobs that waited most for it, "
        f"{part} was for slices that the interpreter could not cut (over twice its switch interval of "
        f"{duration(found.interval_ns)}): C calls that hold the GIL. Permits and intervals do not shorten those; "
        "placing them elsewhere does.",
        "note",
    )


def culprits_view(study: ReportStudy) -> Html:
    """The section."""
    if not study.recording.stacks and not study.matrix.whole_ns:
        return Html("")
    return section(
        "The culprits' code",
        flame_graph(stacks_of(study.recording.stacks), "stacks of what ran while others waited"),
        _table("By kind of work", by_work(study.recording.stacks)),
        _table("By function", by_function(study.recording.stacks)),
        _routes(study),
        about="Where culprits were while others waited; the width is the waiting that they caused, not the CPU that "
        "they used. Click zooms.",
        name="culprits",
    )


def own_view(study: ReportStudy) -> Html:
    """The section."""
    if not study.routes:
        return Html("")
    recording = study.recording
    chosen, more = shortened(study.own)
    rows = [
        Row([line.route, line.frame.place, line.frame.function, duration(line.cpu_ns), share(line.frac),
             count(line.looks)])
        for line in chosen
    ]  # fmt: skip
    heads = ["route", "at", "in", "CPU", "of what was seen", "looks"]
    return section(
        "The jobs' own time",
        flame_graph(spent(study.routes, recording.own, recording.blame), "CPU, I/O and waiting by route", "spent"),
        details("Lines that jobs computed in", table(heads, rows, "own lines", names=3), more) if rows else "",
        about="All jobs of a route together: what they computed, by line of code where they were looked at (five times "
        "a second, in slices over 10 ms); what they were blocked on; and whom they waited for. Click zooms.",
        name="own",
    )


def _table(heading: str, found: Sequence[CulpritCode]) -> Html:
    if not found:
        return Html("")
    chosen, more = shortened(found)
    rows = [
        Row([each.name, each.place or "-", duration(each.lateness_ns), share(each.lateness_frac),
             count(each.looks),
             ", ".join(each.culprits[:2]) + (f" and {len(each.culprits) - 2} more" if len(each.culprits) > 2 else "")])
        for each in chosen
    ]  # fmt: skip
    heads = [heading, "where most", "made others wait", "of all such", "seen", "done for"]
    return joined([details(heading, table(heads, rows, heading, names=2), more)])


def _routes(study: ReportStudy) -> Html:
    if not study.matrix.whole_ns:
        return Html("")
    rows = []
    for split in study.routes:
        caused = study.matrix.by_culprit.get(split.route, 0)
        if caused:
            ratio = job_cpu(split.cpu_ns, caused)
            rows.append(
                (caused, Row([split.route, count(len(split.jobs)), duration(split.cpu_ns), duration(caused),
                              factor(ratio), duration(caused / len(split.jobs))]))
            )  # fmt: skip
    rows.sort(key=lambda item: -item[0])
    chosen, more = shortened([row for _, row in rows])
    heads = ["route", "jobs", "CPU", "made others wait", "by its CPU", "a job"]
    return joined([details("CPU and the waiting it caused, by route", table(heads, chosen, "cost by route"), more)])


def gain_view(study: ReportStudy) -> Html:
    """The section; empty when nothing that permits act on was recorded."""
    moved = [gain for gain in study.gains if gain.removable_ns or gain.heavy]
    if not any(gain.removable_ns for gain in moved):
        return Html("")
    drawn = sorted(moved, key=lambda gain: -abs(gain.levels["p99"].now_ns - gain.levels["p99"].about_ns))[:_DRAWN]
    groups = {gain.route or "(no route)": _whiskers(gain, study.remedy) for gain in drawn}
    values = [value for rows in groups.values() for row in rows for value in (row.low, row.high)]
    axis = LogAxis(max(1e3, min(values) * 0.85), max(values) * 1.15, LEFT, RIGHT)
    chosen, more = shortened(study.gains)
    heads = ["route", "", "p50 now", "about", "p95 now", "about", "p99 now", "about", "between"]
    rows = [
        Row(
            [
                gain.route or "(no route)",
                "takes turns" if gain.heavy else "",
                *(duration(ns) for name in ("p50", "p95", "p99") for ns in _now_and_about(gain, name)),
                f"{duration(gain.levels['p99'].low_ns)} - {duration(gain.levels['p99'].high_ns)}",
            ]
        )
        for gain in chosen
    ]
    return section(
        f"With {study.remedy}: an estimate",
        wide(whiskers(groups, axis, f"p99 now and with {study.remedy}", duration)),
        details("All routes", table(heads, rows, "estimates", names=2), more),
        note(
            "What the estimate takes as known: on threads with CPU permits, and on a loop whose heavy work "
            "greenlane.run has on its lane, a light phase waits at most one switch interval for a heavy one; heavy "
            "phases take turns as they do now; the same jobs arrive at the same "
            "moments. Light jobs lose what they waited in heavy slices, heavy jobs are overtaken by light work. Not in "
            "it: queues that drain sooner (better), C calls that hold the GIL (worse), more switches (worse). "
            f"`mode = on` under the same load is the proof: {MEASURED}."
        ),
        about="p99 of each route now, and as it would be; the bar is what the estimate may be off by.",
        name="permits",
    )


def _now_and_about(gain: Gain, name: str) -> tuple[int, int]:
    return gain.levels[name].now_ns, gain.levels[name].about_ns


def _whiskers(gain: Gain, remedy: str) -> list[Whisker]:
    at = gain.levels["p99"]
    return [
        Whisker("now", at.now_ns, at.now_ns, at.now_ns, duration(at.now_ns)),
        Whisker(f"with {remedy}", at.low_ns, at.about_ns, at.high_ns, f"about {duration(at.about_ns)}", "", True),
    ]
