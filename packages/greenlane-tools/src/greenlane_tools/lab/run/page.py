"""The result as one HTML file: no network, no script but its own, light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import Final

import numpy as np

from greenlane_tools.lab.run.judged import Judgement
from greenlane_tools.lab.run.rows import ALL, CLIENT, Row, Run, find, turns
from greenlane_tools.lab.run.runner import Result
from greenlane_tools.lab.run.tables import OURS, laws, lines, subjects, worst
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.scenario import Level, Scenario
from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LinearAxis
from greenlane_tools.page.blocks import note, paragraph, section
from greenlane_tools.page.charts.curves import Curve, Point, curves
from greenlane_tools.page.charts.ridges import ridges
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.document import document as html_document
from greenlane_tools.page.frame import Mark, Scale
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import amount, milliseconds

# --- Parts of a result's page that every scenario has.


# Points of a line over time.
_BINS: Final = 80


def drawn_order(contenders: Sequence[str]) -> list[str]:
    """Ours last: the eye ends there."""
    return [one for one in contenders if one != OURS] + [one for one in contenders if one == OURS]


def levels_of(runs: Sequence[Run]) -> list[Level]:
    """The levels that were run, the highest first."""
    found = dict.fromkeys(run.turn.level for run in runs)
    return sorted(found, key=lambda level: (level.utilisation_frac or 0, level.rate_factor), reverse=True)


def said_level(level: Level) -> str:
    """As a tab or a group says it."""
    return f"{level.utilisation_frac:g} CPU" if level.utilisation_frac is not None else f"{level.rate_factor:g} × rate"


def in_time(scenario: Scenario, rows: Sequence[Row], contenders: Sequence[str], name: str) -> Html:
    """The share of one class within its deadline, by level and contender; nothing when it has none."""
    deadline_ms = scenario.request_class(name).deadline_ms
    groups: dict[str, list[Whisker]] = {}
    for level in sorted({row.level for row in rows}, key=lambda one: (one.utilisation_frac or 0, one.rate_factor)):
        found = [find(rows, contender, name, level) for contender in contenders]
        groups[said_level(level)] = [whisker for row in found for whisker in _whiskers(row)]
    if not deadline_ms or not any(groups.values()):
        return Html("")
    axis = LinearAxis(0, 1, LEFT, RIGHT, 0.25)
    title = f"share of {name} within {deadline_ms:g} ms by load and contender"
    return section(
        f"{name[:1].upper()}{name[1:]} within {deadline_ms:g} ms",
        blocks.wide(whiskers(groups, axis, title, lambda share: f"{share:.0%}".replace("%", " %"))),
        about="Share of all that were asked for, with its 95 % interval (Wilson).",
    )


def over_time(scenario: Scenario, runs: Sequence[Run], contenders: Sequence[str]) -> Html:
    """The slowest answer by when it was due, the first repetition of each level: phases and faults are marked."""
    panels = {said_level(level): _timed(scenario, _first(runs, level), contenders) for level in levels_of(runs)}
    panels = {name: panel for name, panel in panels.items() if panel}
    if not panels:
        return Html("")
    return section(
        "Latency over time",
        blocks.tabs("over-time", panels),
        about="The slowest of the requests that were due in each moment, in the first repetition; what was given up "
        "counts with the time it was waited for. One line a contender: each had the load for itself.",
    )


def distributions(scenario: Scenario, runs: Sequence[Run], contenders: Sequence[str], first: Sequence[str]) -> Html:
    """Latencies of each class; `first` are shown at once, the rest one click away."""
    panels = {said_level(level): _charts(scenario, runs, contenders, level, first) for level in levels_of(runs)}
    return section(
        "Latency, from the scheduled send to the last byte",
        blocks.tabs("distributions", panels) if panels else "",
        about="Logarithmic axis; each row is scaled to its own peak. Hollow dot p50, full dot p99; red is past the "
        "deadline.",
    )


def numbers(scenario: Scenario, rows: Sequence[Row], contenders: Sequence[str]) -> Html:
    """A line a cell, and closed-loop tools below."""
    names = [one.name for one in scenario.classes if any(row.endpoint == one.name for row in rows)]
    phases = list(dict.fromkeys(row.phase for row in rows))
    heads = ["load", "contender", *(["phase"] if len(phases) > 1 else []), *(f"{name} p50 / p99" for name in names)]
    heads += ["done/s", "CPU used", "CPU ms/job", "PSS MB", "errors"]
    lines = []
    for level in dict.fromkeys(row.level for row in rows):
        for number, contender in enumerate(contenders):
            for phase in phases:
                total = find(rows, contender, ALL, level, phase)
                if total is not None:
                    cells = [_pair(find(rows, contender, name, level, phase)) for name in names]
                    style = " ".join(["first"] * (number == 0 and phase == ALL) + ["ours"] * (contender == OURS))
                    where = [level.label, contender, *([phase] if len(phases) > 1 else [])]
                    lines.append(blocks.Row([*where, *cells, *_whole(total, phase)], style))
    return section(
        "All numbers",
        blocks.table(heads, lines, "all numbers", names=3 if len(phases) > 1 else 2),
        _tools(rows),
        about="ms; CPU measured, of one core, processes of a contender together; CPU per job and memory likewise; "
        "all three are of whole runs, with every phase and the time until the last answer.",
    )


def payers(scenario: Scenario, rows: Sequence[Row]) -> Html:
    """Every class at every load, over plain threads and over the best stock server; "" = nothing to compare."""
    found = lines(scenario, rows)
    if not found:
        return Html("")
    return section(
        "Who pays",
        blocks.table(found[0], [blocks.Row(line) for line in found[1:]], "who pays", names=2),
        about=f"Our latency over {scenario.calibrated_on}'s / over that of the stock server that is best just there; "
        f"under 1 is a gain. {'. '.join([worst(scenario, rows), *laws(scenario, rows)])}",
    )


def method(environment: Mapping[str, object], about: str, *more: Html) -> Html:
    """How it was measured, and on what."""
    text = json.dumps(environment, indent=1, default=str)
    return section(
        "How it was measured",
        *more,
        blocks.details("Environment, load and rates", element("pre", element("code", text), class_="wide")),
        about=about,
    )


def _whiskers(row: Row | None) -> list[Whisker]:
    if row is None or row.within_deadline_frac is None:
        return []
    low, high = row.within_deadline_low_frac or 0.0, row.within_deadline_high_frac or 0.0
    said, aside = f"{row.within_deadline_frac * 100:.1f} %", f"[{low * 100:.1f}-{high * 100:.1f}]"
    return [Whisker(row.contender, low, row.within_deadline_frac, high, said, aside, row.contender == OURS)]


def _first(runs: Sequence[Run], level: Level) -> dict[str, Run]:
    found: dict[str, Run] = {}
    for run in runs:
        if run.turn.level == level:
            found.setdefault(run.turn.contender, run)
    return found


def _timed(scenario: Scenario, runs: Mapping[str, Run], contenders: Sequence[str]) -> Html:
    figures = []
    marks = _marks(scenario, runs)
    for one in scenario.classes:
        lines = [Curve(name, _slowest(runs[name].samples.of(one.name)), strong=name == OURS)
                 for name in contenders if name in runs]  # fmt: skip
        lines = [line for line in lines if line.points]
        if not lines:
            continue
        level = [Mark(one.deadline_ms, f"deadline {one.deadline_ms:g} ms", late=True)] if one.deadline_ms else []
        drawing = curves(
            lines, f"slowest {one.name} over time by contender", Scale("s since the start", amount),
            Scale("slowest", milliseconds, log=True), upright=marks, level=level, height=220,
        )  # fmt: skip
        figures.append(blocks.figure(one.name, blocks.wide(drawing)))
    most = 2
    more = blocks.details("The other classes", *figures[most:]) if figures[most:] else ""
    return Html("".join(figures[:most]) + more)


def _slowest(samples: Samples) -> list[Point]:
    if not len(samples):
        return []
    width_ns = max(int(samples.scheduled_ns.max()) + 1, 1) / _BINS
    place = (samples.scheduled_ns // width_ns).astype(np.int64)
    highest = np.full(_BINS + 1, np.nan)
    np.fmax.at(highest, place, np.maximum(samples.latency_ms(), 1e-3))
    return [Point((n + 0.5) * width_ns / 1e9, float(value)) for n, value in enumerate(highest) if not np.isnan(value)]


def _marks(scenario: Scenario, runs: Mapping[str, Run]) -> list[Mark]:
    found = []
    if len(scenario.phases) > 1:
        found += [Mark(scenario.begins_s(one.name), one.name) for one in scenario.phases]
    for run in list(runs.values())[:1]:
        for one in run.faults:
            until = one.ended_ns / 1e9 if one.kind != "kill" else None
            found.append(Mark(one.began_ns / 1e9, one.kind, until=until, late=True))
    return found


def _charts(
    scenario: Scenario, runs: Sequence[Run], contenders: Sequence[str], level: Level, first: Sequence[str]
) -> Html:
    chosen = [run for run in runs if run.turn.level == level]
    names = [one.name for one in scenario.classes if any(len(run.samples.of(one.name)) for run in chosen)]
    drawn = {name: _figure(scenario, chosen, contenders, name) for name in names}
    rest = [drawn[name] for name in names if name not in first]
    more = blocks.details("The other classes", blocks.figures(rest)) if any(rest) else Html("")
    return Html(blocks.figures(drawn[name] for name in first if name in drawn) + more)


def _figure(scenario: Scenario, runs: Sequence[Run], contenders: Sequence[str], name: str) -> Html:
    one = scenario.request_class(name)
    found = {}
    for contender in contenders:
        mine = Samples.joined([run.samples.of(name) for run in runs if run.turn.contender == contender])
        if len(values := mine.answered()):
            found[contender] = [float(value) * 1e6 for value in values]
    if not found:
        return Html("")
    deadline_ns = one.deadline_ms * 1e6 if one.deadline_ms else None
    drawing = ridges(found, f"latency of {name} by contender", deadline_ns=deadline_ns, strong=OURS)
    count = max(len(values) for values in found.values())
    lane = "" if one.lane == ALL else f"{one.lane}, "
    return blocks.figure(name, drawing, f"{lane}{count} requests a contender")


def _tools(rows: Sequence[Row]) -> Html:
    tools = [row for row in rows if row.stage != CLIENT]
    if not tools:
        return Html("")
    lines = [
        blocks.Row([row.level.label, row.contender, row.endpoint, row.stage, row.samples, _pair(row)]) for row in tools
    ]
    heads = ["load", "contender", "class", "closed-loop tool", "requests", "p50 / p99"]
    return blocks.table(heads, lines, "closed-loop tools", names=4)


def _whole(total: Row, phase: str) -> list[str]:
    costs = [
        f"{total.cpu_utilisation_frac or 0:.2f}", f"{total.cpu_ms_per_job or 0:.2f}", f"{total.pss_mb or 0:.0f}"
    ]  # fmt: skip
    # They are known of whole runs alone.
    return [f"{total.done_per_s:.1f}", *(costs if phase == ALL else [""] * 3), str(total.errors + total.lost)]


def _pair(row: Row | None) -> str:
    return "-" if row is None or row.p50_ms is None or row.p99_ms is None else f"{row.p50_ms:.0f} / {row.p99_ms:.0f}"


_ABOUT = (
    "Every contender up at the same time, idle while another has its turn; turns interleaved within each repetition; "
    "the same arrivals and amounts of work for all. Open loop: a request leaves when it is due whether or not earlier "
    "ones were answered, and its latency runs from then to the last byte of its answer. What it does not show: a "
    "network, clients slower than loopback, days of uptime."
)


def page(result: Result, command: str = "") -> Html:
    """The whole page; `command` made it, "" = greenlane lab run."""
    command = command or f"greenlane lab run {result.scenario.name}"
    scenario, order = result.scenario, drawn_order(result.contenders)
    header = [
        note(command),
        element("h1", said(scenario.question), class_="long"),
        paragraph(result.conclusion, "lead"),
        paragraph(f"Expected: {said(scenario.expected)}"),
        *(paragraph(remark, "warning") for remark in result.remarks),
    ]
    parts = [
        _bounds(result),
        *(in_time(scenario, result.rows, order, one.name) for one in scenario.classes),
        over_time(scenario, result.runs, order),
        distributions(scenario, result.runs, order, subjects(scenario)),
        payers(scenario, result.rows),
        numbers(scenario, result.rows, order),
        method(result.environment, _ABOUT, blocks.details("The scenario", _text(scenario.text))),
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
