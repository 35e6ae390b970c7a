"""The result as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import isnan
from typing import Final

from greenlane.lab.run.judged import Judgement
from greenlane.lab.run.runner import Result

__all__ = ["SCHEMA", "document"]

SCHEMA: Final = "greenlane.lab-run/1"


def document(result: Result) -> dict[str, object]:
    """What `--json` prints and rows.json keeps."""
    scenario = result.scenario
    return {
        "schema": SCHEMA,
        "environment": dict(result.environment),
        "question": said(scenario.question),
        "expected": said(scenario.expected),
        "rows": [asdict(row) for row in result.rows],
        "bounds": [_bound(one) for one in result.judgements],
        "faults": [{"run": run.turn.label, **asdict(one)} for run in result.runs for one in run.faults],
        "conclusion": result.conclusion,
        "remarks": list(result.remarks),
        "complete": result.complete,
    }


def said(text: str) -> str:
    """A text of a scenario file on one line."""
    return " ".join(text.split())


def _bound(one: Judgement) -> Mapping[str, object]:
    values = {
        name: None if isnan(value) else value for name, value in (("measured", one.measured), ("limit", one.limit))
    }
    return {"bound": one.bound, "level": one.level or None, **values, "verdict": one.verdict}
