"""Runs the present and the recommended set-up in the lab, and lays what came of it beside what was predicted.

Predicted is, for the requests that were sent: see `replay`. What a set-up does in the long run the advice says.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import ALL, CLIENT, Row
from greenlane_tools.lab.run.runner import Result, run_scenario, stored
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.parts import Contender
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.plan.advice import Advice
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.measured import carried
from greenlane_tools.plan.options import Option
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import CONNECTIONS, SWITCH_MS, THREADS, SetUp
from greenlane_tools.plan.settings import settings_of
from greenlane_tools.plan.verify.compared import P50_FRAC, P99_FRAC, Compared
from greenlane_tools.plan.verify.reasons import UNEXPLAINED, Miss, around, reasons
from greenlane_tools.plan.verify.replay import SentRequest, by_work, came_of, replayed
from greenlane_tools.plan.verify.scenarios import (
    APPLICATION,
    application_of,
    asked_of,
    classes_of,
    matched,
    named,
    twin,
)

__all__ = ["SECONDS", "Proof", "contender_of", "proven"]

SECONDS: Final = 60.0
_REPETITIONS: Final = 2
_GREENLANE: Final = ("{python}", "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")
#: Of the twin: see `played`.
SWITCHING: Final = "PLAYED_SWITCH_INTERVAL_MS"
_WORKERS: Final = {"gevent": "gevent", "threads": "gthread", "permits": "greenlane.hosts.gunicorn.Worker"}


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
    asked_for = asked_of(advice.profile) if not scenario else by_work(advice.profile, _by_route(asked, classes))
    rows: list[Compared] = []
    for name, option in options.items():
        runs = [run for run in result.runs if run.turn.contender == name]
        talk.progress(f"predicting what {name} made of these requests")
        came = came_of([run.samples for run in runs], {class_: route for route, class_ in classes.items()}, asked_for)
        if came:
            one = _Compared(advice.profile, advice.goals, name, option.set_up, runs, came)
            rows += [one.of(route, _row(result, name, class_)) for route, class_ in classes.items()]
    talk.progress("")
    return Proof(tuple(rows), tuple(_notes(advice, options, result)), result)


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


class _Compared:
    """One contender's requests, as they were predicted and as they went."""

    def __init__(
        self, profile: Profile, goals: Sequence[Goal], name: str, set_up: SetUp, runs: Sequence[Run],
        came: Sequence[SentRequest],
    ) -> None:  # fmt: skip
        self._profile, self._goals, self._name, self._set_up = profile, goals, name, set_up
        self._came, self._runs = came, runs
        self._samples = Samples.joined([run.samples for run in runs])
        self._around = around(runs)
        self._at = {1.0: replayed(profile, set_up, came)}

    def of(self, route: str, row: Row | None) -> Compared:
        """One route's. Percentiles that so few requests do not carry are no measurement."""
        limit_ms = next((goal.limit_ms for goal in self._goals if goal.route == route), None)
        samples = row.samples if row is not None else 0
        sure = {share: row is not None and carried(share, samples) for share in (0.5, 0.99)}
        at = self._at[1.0]
        found = Compared(
            contender=self._name,
            route=route,
            limit_ms=limit_ms,
            predicted_within=at.within(route, limit_ms).at if limit_ms else None,
            measured_within=row.within_deadline_frac if row is not None and limit_ms else None,
            measured_low=row.within_deadline_low_frac if row is not None else None,
            measured_high=row.within_deadline_high_frac if row is not None else None,
            predicted_p50_ms=_finite(at.percentile(route, 0.5).at),
            measured_p50_ms=row.p50_ms if row is not None and sure[0.5] else None,
            predicted_p99_ms=_finite(at.percentile(route, 0.99).at),
            measured_p99_ms=row.p99_ms if row is not None and sure[0.99] else None,
            samples=samples,
        )
        return replace(found, reasons=self._reasons(found, row.endpoint)) if found.misses and row is not None else found

    def _reasons(self, found: Compared, endpoint: str) -> tuple[str, ...]:
        latencies_ms = self._samples.of(endpoint).answered()
        said: list[str] = []
        for share, predicted, measured, most in (
            (0.5, found.predicted_p50_ms, found.measured_p50_ms, P50_FRAC),
            (0.99, found.predicted_p99_ms, found.measured_p99_ms, P99_FRAC),
        ):
            if predicted is None or not measured or abs(predicted / measured - 1) <= most:
                continue
            miss = Miss(share, predicted, measured, most, latencies_ms, partial(self._again_ms, found.route, share))
            said += reasons(miss, self._around, self._at[1.0].cpu_ms)
        return tuple(dict.fromkeys(said or [UNEXPLAINED]))

    def _again_ms(self, route: str, share: float, cpu: float) -> float:
        if cpu not in self._at:
            self._at[cpu] = replayed(self._profile, self._set_up, self._came, cpu=cpu)
        return self._at[cpu].percentile(route, share).at


def _by_route(scenario: Scenario, classes: Mapping[str, str]) -> dict[str, RequestClass]:
    return {route: scenario.request_class(name) for route, name in classes.items()}


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


def contender_of(
    name: str, set_up: SetUp, classes: Mapping[str, str], application: str, settings: Path | None
) -> Contender:
    """The contender.

    Args:
        classes: the load's classes by route.
        application: `module:app`, as the service's command ends.
        settings: the greenlane.toml of a set-up that has one.

    Raises: PlanError when the lab cannot serve it so.
    """
    if set_up.host not in _WORKERS:
        raise _no(
            set_up, "host", set_up.host, f"one of {', '.join(_WORKERS)}", "the lab serves WSGI applications by gunicorn"
        )
    env = {"GREENLANE_CONFIG": str(settings) if settings else "", **_switching(set_up)}
    if set_up.queue == "central":
        command = (
            *_GREENLANE, "serve", application, "--kind", "wsgi", "--bind", "{address}",
            *(("--config", str(settings)) if settings else ()),
        )  # fmt: skip
        return Contender(name=name, command=command, env=env)
    own = {lane.processes for lane in set_up.hard}
    shared = set_up.processes - sum(lane.processes for lane in set_up.hard)
    apart = tuple(classes[route] for lane in set_up.hard for route in lane.routes if route in classes)
    if own and (own != {shared} or len(set_up.hard) > 1):
        rule = f"one lane with as many processes as the others have, {shared}"
        raise _no(set_up, "lanes", [lane.name for lane in set_up.hard], rule, "try that split by hand")
    return Contender(name=name, arguments=tuple(_arguments(set_up, shared)), apart=apart, env=env)


def _arguments(set_up: SetUp, processes: int) -> Sequence[str]:
    found = ["--worker-class", _WORKERS[set_up.host], "--workers", str(processes)]
    if set_up.host == "gevent":
        found += ["--worker-connections", str(set_up.limit or CONNECTIONS)]
        # A connection that waits for its next request would hold a place: the simulation has none, the advice says so.
        found += ["--keep-alive", "0"] if 0 < set_up.limit < CONNECTIONS else []
    else:
        found += ["--threads", str(set_up.limit or THREADS)]
    return [*found, "--reuse-port"] if set_up.queue == "reuse-port" else found


def _switching(set_up: SetUp) -> dict[str, str]:
    """The twin sets it for plain threads; Greenlane's worker has it from its settings, a loop has no use for it."""
    if set_up.host != "threads" or set_up.switch_interval_ms == SWITCH_MS:
        return {}
    return {SWITCHING: f"{set_up.switch_interval_ms:g}"}


def _no(set_up: SetUp, name: str, value: object, rule: str, hint: str) -> PlanError:
    return PlanError("verify the plan in the lab", name=name, value=value, rule=rule, hint=hint)
