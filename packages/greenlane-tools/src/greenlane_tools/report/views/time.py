"""Where the time went, and what slow jobs have more of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final, TypeVar

from greenlane_tools.page.blocks import Row, details, figure, figures, legend, note, section, table, tabs, wide
from greenlane_tools.page.charts.ridges import ridges
from greenlane_tools.page.charts.stacked_bars import Bar, stacked_bars
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import count, duration, share
from greenlane_tools.report.split import KINDS, LEVELS, RouteSplit, named
from greenlane_tools.report.study import ReportStudy
from greenlane_tools.report.tail import Excess

__all__ = ["MOST_DRAWN", "kinds_legend", "latency_view", "shortened", "tail_view"]

T = TypeVar("T")
MOST_DRAWN: Final = 12
MOST_ROWS: Final = 300
_SAID = {"mean": "mean", "p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9"}
#: Smaller parts cannot be seen in a bar: no colour is explained for them.
_SEEN_FRAC = 0.002
#: Distributions need at least this many jobs to have a shape.
_SHAPE = 20
_DRAWN_ROUTES = 8
_AT = {"p95": "p95", "p99": "p99", "p999": "p99.9"}


def shortened(found: Sequence[T], most: int = MOST_ROWS) -> tuple[Sequence[T], Html]:
    """The first ones, and a word about those left out; empty when none are."""
    if len(found) <= most:
        return found, Html("")
    return found[:most], note(f"{count(len(found) - most)} more are in `greenlane report --json`.")


def latency_view(study: ReportStudy) -> Html:
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


def _shapes(study: ReportStudy) -> Html:
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


def _numbers(study: ReportStudy) -> list[Html]:
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


def tail_view(study: ReportStudy) -> Html:
    """The section."""
    found = {route: [each for each in of if each.excess_ns > 0] for route, of in study.excesses.items()}
    found = {route: of for route, of in found.items() if of}
    if not found:
        return Html("")
    drawn = sorted(found, key=lambda route: -found[route][-1].excess_ns * len(_jobs_of(study, route)))[:_DRAWN_ROUTES]
    bars = [
        Bar(f"{route} {_AT[each.at]}", _positive(each), f"+{duration(each.excess_ns)}", number == 0)
        for route in drawn
        for number, each in enumerate(_distinct(found[route]))
    ]
    lines, more = shortened([each for route in found for each in found[route]])
    rows = [
        Row(
            [
                each.route,
                _AT[each.at],
                duration(each.latency_ns),
                duration(each.excess_ns),
                share(each.wait_frac),
                named(each.kind),
                *(_culprit(study, each, place) for place in range(2)),
            ]
        )
        for each in lines
    ]
    heads = ["route", "at", "latency", "over p50", "of it wait", "mostly", "first culprit", "second culprit"]
    return section(
        "What makes the slow ones slow",
        wide(stacked_bars(bars, "what percentiles exceed p50 by, by kind")),
        kinds_legend(kind for route in drawn for each in found[route] for kind in _positive(each)),
        details("By route, with the culprits", table(heads, rows, "what percentiles exceed p50 by"), more),
        about="What jobs around p95, p99 and p99.9 have more of than those around p50. The number is the percentile "
        "less p50. p99.9 is given from 10,000 jobs on.",
        name="tail",
    )


def _distinct(found: list[Excess]) -> list[Excess]:
    """Without percentiles that few jobs make the same as the next."""
    return [each for each, after in zip_longest(found, found[1:]) if after is None or each.excess_ns < after.excess_ns]


def _jobs_of(study: ReportStudy, route: str) -> range:
    return range(next((len(split.jobs) for split in study.routes if split.route == route), 0))


def _positive(each: Excess) -> dict[str, float]:
    least = 0.002 * sum(ns for ns in each.parts.values() if ns > 0)
    return {kind: each.parts[kind] for kind in KINDS if each.parts.get(kind, 0) > least}


def _culprit(study: ReportStudy, each: Excess, place: int) -> str:
    if place >= len(each.culprits):
        return "-"
    name, frac = each.culprits[place]
    where = f", {study.places[name].place}" if name in study.places else ""
    return f"{share(frac)} {name}{where}"
