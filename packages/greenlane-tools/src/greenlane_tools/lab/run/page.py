"""The result as one HTML file: no network, no script but its own, light and dark."""

from __future__ import annotations

from greenlane_tools.lab.run import sections
from greenlane_tools.lab.run.document import said
from greenlane_tools.lab.run.runner import Result
from greenlane_tools.lab.run.tables import subjects
from greenlane_tools.page import blocks
from greenlane_tools.page.blocks import note, paragraph, section
from greenlane_tools.page.document import document
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import amount

__all__ = ["page"]

_ABOUT = (
    "Every contender up at the same time, idle while another has its turn; turns interleaved within each repetition; "
    "the same arrivals and amounts of work for all. Open loop: a request leaves when it is due whether or not earlier "
    "ones were answered, and its latency runs from then to the last byte of its answer. What it does not show: a "
    "network, clients slower than loopback, days of uptime."
)


def page(result: Result) -> Html:
    """The whole page."""
    scenario, order = result.scenario, sections.drawn_order(result.contenders)
    header = [
        note(f"greenlane lab run {scenario.name}"),
        element("h1", said(scenario.question), class_="long"),
        paragraph(result.conclusion, "lead"),
        paragraph(f"Expected: {said(scenario.expected)}"),
        *(paragraph(remark, "warning") for remark in result.remarks),
    ]
    parts = [
        _bounds(result),
        *(sections.in_time(scenario, result.rows, order, one.name) for one in scenario.classes),
        sections.over_time(scenario, result.runs, order),
        sections.distributions(scenario, result.runs, order, subjects(scenario)),
        sections.numbers(scenario, result.rows, order),
        sections.method(result.environment, _ABOUT, blocks.details("The scenario", _text(scenario.text))),
    ]
    return document(f"greenlane lab run {scenario.name}", header, parts)


def _bounds(result: Result) -> Html:
    if not result.judgements:
        return Html("")
    rows = [
        blocks.Row([one.bound, one.level or "-", amount(one.measured), amount(one.limit), one.verdict])
        for one in result.judgements
    ]
    heads = ["bound", "load", "measured", "limit", "verdict"]
    return section("What was expected", blocks.table(heads, rows, "bounds"), about="Point values; see the intervals.")


def _text(text: str) -> Html:
    return element("pre", element("code", text), class_="wide")
