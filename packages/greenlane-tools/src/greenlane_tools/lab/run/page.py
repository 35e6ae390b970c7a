"""The result as one HTML file: no network, no script but its own, light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import isnan
from typing import Final

from greenlane_tools.lab.run import sections
from greenlane_tools.lab.run.judged import Judgement
from greenlane_tools.lab.run.performed import turns
from greenlane_tools.lab.run.runner import Result
from greenlane_tools.lab.run.tables import subjects
from greenlane_tools.page import blocks
from greenlane_tools.page.blocks import note, paragraph, section
from greenlane_tools.page.document import document as html_document
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import amount

__all__ = ["SCHEMA", "document", "marked", "page", "said"]


_ABOUT = (
    "Every contender up at the same time, idle while another has its turn; turns interleaved within each repetition; "
    "the same arrivals and amounts of work for all. Open loop: a request leaves when it is due whether or not earlier "
    "ones were answered, and its latency runs from then to the last byte of its answer. What it does not show: a "
    "network, clients slower than loopback, days of uptime."
)


def page(result: Result, command: str = "") -> Html:
    """The whole page; `command` made it, "" = greenlane lab run."""
    command = command or f"greenlane lab run {result.scenario.name}"
    scenario, order = result.scenario, sections.drawn_order(result.contenders)
    header = [
        note(command),
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
        sections.payers(scenario, result.rows),
        sections.numbers(scenario, result.rows, order),
        sections.method(result.environment, _ABOUT, blocks.details("The scenario", _text(scenario.text))),
    ]
    return html_document(command, header, parts)


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


# --- The result as one JSON object.

SCHEMA: Final = "greenlane.lab-run/1"


def document(result: Result) -> dict[str, object]:
    """What `--json` prints and rows.json keeps. `cells`: those that are not whole."""
    scenario = result.scenario
    return {
        "schema": SCHEMA,
        "environment": dict(result.environment),
        "question": said(scenario.question),
        "expected": said(scenario.expected),
        "rows": [asdict(row) for row in result.rows],
        "bounds": [_bound(one) for one in result.judgements],
        "faults": [{"run": run.turn.label, **asdict(one)} for run in result.runs for one in run.faults],
        "cells": [_cell(*one) for one in marked(result).items()],
        "conclusion": result.conclusion,
        "remarks": list(result.remarks),
        "complete": result.complete,
    }


def marked(result: Result) -> dict[tuple[str, str], tuple[int, list[str]]]:
    """Cells that are not whole, by contender and level: runs that were not made, runs in which a service died."""
    made = {run.turn: run for run in result.runs}
    found: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for turn in turns(result.scenario, result.contenders):
        missing, dead = found.get((turn.contender, turn.level.label), (0, []))
        run = made.get(turn)
        if run is None or run.dead:
            whole = (missing + 1, dead) if run is None else (missing, [*dead, turn.label])
            found[turn.contender, turn.level.label] = whole
    return found


def said(text: str) -> str:
    """A text of a scenario file on one line."""
    return " ".join(text.split())


def _cell(which: tuple[str, str], what: tuple[int, list[str]]) -> Mapping[str, object]:
    return {"contender": which[0], "level": which[1], "runs_missing": what[0], "runs_with_a_death": what[1]}


def _bound(one: Judgement) -> Mapping[str, object]:
    values = {
        name: None if isnan(value) else value for name, value in (("measured", one.measured), ("limit", one.limit))
    }
    return {"bound": one.bound, "level": one.level or None, **values, "verdict": one.verdict}
