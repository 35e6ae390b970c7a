"""What permits would change: p99 now and estimated, with bounds, and what the estimate rests on."""

from __future__ import annotations

from greenlane_tools.page.axis import LogAxis
from greenlane_tools.page.blocks import Row, details, note, section, table, wide
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import duration
from greenlane_tools.report.gain import Gain
from greenlane_tools.report.study import Study
from greenlane_tools.report.views.limits import shortened

__all__ = ["view"]

_DRAWN = 8


def view(study: Study) -> Html:
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
                *(duration(ns) for name in ("p50", "p95", "p99") for ns in _pair(gain, name)),
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
            "`mode = on` under the same load is the proof."
        ),
        about="p99 of each route now, and as it would be; the bar is what the estimate may be off by.",
        name="permits",
    )


def _pair(gain: Gain, name: str) -> tuple[int, int]:
    return gain.levels[name].now_ns, gain.levels[name].about_ns


def _whiskers(gain: Gain, remedy: str) -> list[Whisker]:
    at = gain.levels["p99"]
    return [
        Whisker("now", at.now_ns, at.now_ns, at.now_ns, duration(at.now_ns)),
        Whisker(f"with {remedy}", at.low_ns, at.about_ns, at.high_ns, f"about {duration(at.about_ns)}", "", True),
    ]
