"""Runs the present and the recommended set-up in the lab, and lays what came of it beside what was predicted."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from greenlane.errors import PlanError
from greenlane.lab.run.rows import ALL, CLIENT, Row
from greenlane.lab.run.runner import Result, run_scenario, stored
from greenlane.lab.run.talk import Talk
from greenlane.lab.scenario.contender import Contender
from greenlane.lab.scenario.scenario import Scenario
from greenlane.plan.advice import Advice
from greenlane.plan.measured import carried
from greenlane.plan.option import Option
from greenlane.plan.verify.compared import Compared
from greenlane.plan.verify.contenders import contender_of
from greenlane.plan.verify.named import application_of, matched, named
from greenlane.plan.verify.twin import APPLICATION, classes_of, twin
from greenlane.plan.written import settings_of

__all__ = ["SECONDS", "Proof", "proven"]

SECONDS: Final = 60.0
_REPETITIONS: Final = 2


@dataclass(frozen=True, slots=True)
class Proof:
    """All of it. `notes`: what keeps it from being a fair proof, each a sentence."""

    rows: tuple[Compared, ...]
    notes: tuple[str, ...]
    result: Result


def proven(
    advice: Advice, folder: Path, talk: Talk, *, scenario: str = "", seconds: float = SECONDS, fresh: bool = False
) -> Proof:
    """Runs both. Blocks; no process is left afterwards, also after Ctrl-C.

    Args:
        scenario: of the lab, by name or file; "" = the profile's own twin.
        seconds: of load for each of the two.

    Raises: PlanError: nothing to verify, or the lab cannot serve it. What `run_scenario` raises.
    """
    options = _options(advice)
    asked, classes, application = _asked(advice, folder, scenario, seconds)
    files: list[Path] = []
    contenders: list[Contender] = []
    for name, option in options.items():
        settings = None
        if not option.candidate.stock:
            path = asked.folder / f"{name}.toml" if not scenario else folder / f"{name}.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(settings_of(advice, option) if name != "present" else "", encoding="utf-8")
            settings = path.resolve()
            files.append(settings)
        contenders.append(contender_of(name, option.set_up, classes, application, settings))
    whole = replace(asked, contenders=tuple(contenders))
    result = run_scenario(whole, [one.name for one in contenders], stored(whole, folder / "runs"), talk, fresh=fresh)
    rows = [
        _compared(advice, name, option, route, _row(result, name, class_))
        for name, option in options.items()
        for route, class_ in classes.items()
    ]
    return Proof(tuple(row for row in rows if row is not None), tuple(_notes(advice, options, result)), result)


def _options(advice: Advice) -> dict[str, Option]:
    if advice.present is None or advice.recommended is None:
        rule = "an advice that something was simulated for"
        raise PlanError("verify the plan in the lab", name="verdict", value=advice.verdict.value, rule=rule)
    found = {"present": advice.present}
    if advice.recommended.candidate.name != advice.present.candidate.name:
        found["recommended"] = advice.recommended
    return found


def _asked(advice: Advice, folder: Path, name: str, seconds: float) -> tuple[Scenario, dict[str, str], str]:
    limits_ms = {goal.route: goal.limit_ms for goal in advice.goals}
    if not name:
        made = twin(advice.profile, limits_ms, folder / "twin", seconds=seconds, repetitions=_REPETITIONS)
        there = {one.name for one in made.classes}
        return made, {route: each for route, each in classes_of(advice.profile).items() if each in there}, APPLICATION
    found = named(name, advice.profile, limits_ms, seconds=seconds, repetitions=_REPETITIONS)
    return found, matched(found, advice.profile), application_of(found)


def _row(result: Result, contender: str, endpoint: str) -> Row | None:
    return next(
        (
            row
            for row in result.rows
            if (row.contender, row.endpoint, row.phase, row.stage) == (contender, endpoint, ALL, CLIENT)
        ),
        None,
    )


def _compared(advice: Advice, name: str, option: Option, route: str, row: Row | None) -> Compared | None:
    if row is None:
        return None
    simulated = option.at.run.route(route)
    limit_ms = next((goal.limit_ms for goal in advice.goals if goal.route == route), None)
    return Compared(
        contender=name,
        route=route,
        limit_ms=limit_ms,
        predicted_within=simulated.within_frac(limit_ms) if limit_ms else None,
        measured_within=row.within_deadline_frac if limit_ms else None,
        measured_low=row.within_deadline_low_frac,
        measured_high=row.within_deadline_high_frac,
        predicted_p50_ms=_finite(simulated.percentile_ms(0.5)),
        measured_p50_ms=row.p50_ms,
        predicted_p99_ms=_finite(simulated.percentile_ms(0.99)),
        # A percentile that so few requests do not carry is no measurement of it.
        measured_p99_ms=row.p99_ms if carried(0.99, row.samples) else None,
        samples=row.samples,
    )


def _notes(advice: Advice, options: dict[str, Option], result: Result) -> Sequence[str]:
    notes = list(result.remarks)
    usable = len(os.sched_getaffinity(0))
    for name, option in options.items():
        if option.set_up.processes >= usable:
            notes.append(
                f"{name} has {option.set_up.processes} processes on the {usable} cores here, which the load needs too: "
                "measured latencies are longer than they would be on a machine of its own."
            )
    return notes


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
