"""The result as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import isnan
from typing import Final

from greenlane_tools.lab.run.cell import turns
from greenlane_tools.lab.run.judged import Judgement
from greenlane_tools.lab.run.runner import Result

__all__ = ["SCHEMA", "document", "marked", "said"]

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
