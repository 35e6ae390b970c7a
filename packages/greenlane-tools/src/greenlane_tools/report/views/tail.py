"""What makes the slow ones slow: by how much percentiles exceed p50, by kind and by culprit."""

from __future__ import annotations

from itertools import zip_longest

from greenlane_tools.page.blocks import Row, details, section, table, wide
from greenlane_tools.page.charts.stacked_bars import Bar, stacked_bars
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import duration, share
from greenlane_tools.report.parts import KINDS, named
from greenlane_tools.report.study import Study
from greenlane_tools.report.tail import Excess, sentence
from greenlane_tools.report.views.latency import kinds_legend
from greenlane_tools.report.views.limits import shortened

__all__ = ["view"]

_DRAWN_ROUTES = 8
_SAID = 3
_AT = {"p95": "p95", "p99": "p99", "p999": "p99.9"}


def view(study: Study) -> Html:
    """The section."""
    found = {route: [each for each in of if each.excess_ns > 0] for route, of in study.excesses.items()}
    found = {route: of for route, of in found.items() if of}
    if not found:
        return Html("")
    drawn = sorted(found, key=lambda route: -found[route][-1].excess_ns * len(_jobs(study, route)))[:_DRAWN_ROUTES]
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
        element(
            "ul",
            *(element("li", sentence(found[route][-1], study.places)) for route in drawn[:_SAID]),
            class_="findings",
        ),
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


def _jobs(study: Study, route: str) -> range:
    return range(next((len(split.jobs) for split in study.routes if split.route == route), 0))


def _positive(each: Excess) -> dict[str, float]:
    least = 0.002 * sum(ns for ns in each.parts.values() if ns > 0)
    return {kind: each.parts[kind] for kind in KINDS if each.parts.get(kind, 0) > least}


def _culprit(study: Study, each: Excess, place: int) -> str:
    if place >= len(each.culprits):
        return "-"
    name, frac = each.culprits[place]
    where = f", {study.places[name].place}" if name in study.places else ""
    return f"{share(frac)} {name}{where}"
