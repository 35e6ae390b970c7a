"""Where the time went: bars per route at the mean and each percentile, distributions, all numbers."""

from __future__ import annotations

from collections.abc import Iterable

from greenlane_tools.page.blocks import Row, details, figure, figures, legend, section, table, tabs, wide
from greenlane_tools.page.charts.ridges import ridges
from greenlane_tools.page.charts.stacked_bars import Bar, stacked_bars
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import count, duration, share
from greenlane_tools.report.parts import KINDS, named
from greenlane_tools.report.percentiles import LEVELS
from greenlane_tools.report.split import RouteSplit
from greenlane_tools.report.study import Study
from greenlane_tools.report.views.limits import MOST_DRAWN, shortened

__all__ = ["kinds_legend", "view"]

_SAID = {"mean": "mean", "p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9"}
#: Smaller parts cannot be seen in a bar: no colour is explained for them.
_SEEN_FRAC = 0.002
#: Distributions need at least so many jobs to have a shape.
_SHAPE = 20


def view(study: Study) -> Html:
    """The section."""
    if not study.routes:
        return Html("")
    drawn = study.routes[:MOST_DRAWN]
    panels = {}
    for level in ("p99", "p50", "p95", "p999", "mean"):
        having = [split for split in drawn if level in split.levels]
        if having:
            panels[_SAID[level]] = wide(stacked_bars([_bar(split, level) for split in having], f"latency at {level}"))
    used = {
        kind
        for split in drawn
        for level in split.levels.values()
        for kind, ns in level.parts.items()
        if ns > _SEEN_FRAC * level.latency_ns
    }
    return section(
        "Where the time went",
        tabs("level", panels),
        kinds_legend(used),
        _shapes(study),
        details("All routes and numbers", *_numbers(study)),
        about="Each bar is what jobs around that percentile consist of, routes with the most time first; the number "
        "behind it is the percentile.",
        name="latency",
    )


def kinds_legend(used: Iterable[str]) -> Html:
    """The colours of the kinds that occur."""
    chosen = set(used)
    return legend({f"k-{kind}": named(kind) for kind in KINDS if kind in chosen})


def _bar(split: RouteSplit, level: str) -> Bar:
    found = split.levels[level]
    return Bar(split.route or "(no route)", found.parts, duration(found.latency_ns))


def _shapes(study: Study) -> Html:
    chosen = [split for split in study.routes[:MOST_DRAWN] if len(split.jobs) >= _SHAPE]
    if not chosen:
        return Html("")
    halves = [chosen[: (len(chosen) + 1) // 2], chosen[(len(chosen) + 1) // 2 :]]
    parts = [
        ridges({split.route or "(no route)": [job.latency_ns for job in split.jobs] for split in half}, "distributions")
        for half in halves
        if half
    ]
    told = "each scaled to its own peak; hollow dot p50, full dot p99"
    return Html(figure("Distributions of latency", figures(parts), told))


def _numbers(study: Study) -> list[Html]:
    rows, more = shortened(study.routes)
    kinds = [kind for kind in KINDS if any(split.levels["mean"].parts[kind] > 0 for split in study.routes)]
    heads = ["route", "jobs", "mean", *(_SAID[name] for name in LEVELS)]
    heads += [*(named(kind) for kind in kinds), "of it wait", "I/O on", "late", "failed"]
    lines = [
        Row(
            [
                split.route or "(no route)",
                count(len(split.jobs)),
                duration(split.levels["mean"].latency_ns),
                *(_level(split, name) for name in LEVELS),
                *(duration(split.levels["mean"].parts[kind]) for kind in kinds),
                share(split.wait_ns / max(1, split.latency_ns)),
                ", ".join(kind for kind, ns in list(split.io_ns.items())[:3] if ns > 0) or "-",
                f"{count(split.late)} of {count(split.with_deadline)}" if split.with_deadline else "-",
                count(split.failed),
            ]
        )
        for split in rows
    ]
    return [table(heads, lines, "routes; the kinds are means of one job"), more]


def _level(split: RouteSplit, name: str) -> str:
    return duration(split.levels[name].latency_ns) if name in split.levels else "-"
