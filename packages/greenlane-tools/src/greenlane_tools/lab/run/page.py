"""The result as one HTML file: no network, no script but its own, light and dark."""

from __future__ import annotations

from greenlane_tools.lab.run import sections, strips
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


def page(result: Result, command: str = "") -> Html:
    """The whole page; `command` made it, "" = greenlane lab run."""
    command = command or f"greenlane lab run {result.scenario.name}"
    asked = next((one for one in result.scenario.classes if one.deadline_ms), None)
    scenario, order = result.scenario, sections.drawn_order(result.contenders)
    header = [
        note(command),
        element("h1", said(scenario.question), class_="long"),
        paragraph(result.conclusion, "lead"),
        paragraph(f"Expected: {said(scenario.expected)}"),
        *(paragraph(remark, "warning") for remark in result.remarks),
    ]
    parts = [
        strips.strips(result.runs, order, asked) if asked else "",
        _bounds(result),
        *(sections.in_time(scenario, result.rows, order, one.name) for one in scenario.classes),
        sections.over_time(scenario, result.runs, order),
        sections.distributions(scenario, result.runs, order, subjects(scenario)),
        sections.numbers(scenario, result.rows, order),
        sections.method(result.environment, _ABOUT, blocks.details("The scenario", _text(scenario.text))),
    ]
    styles, script = strips.files() if asked else ("", "")
    return document(command, header, parts, styles=styles, script=script)


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
