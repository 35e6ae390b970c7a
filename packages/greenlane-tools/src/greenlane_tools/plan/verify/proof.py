"""Runs the present and the recommended set-up in the lab, and sets the results beside the band of each goal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from greenlane.errors import PlanError
from greenlane_tools.lab.run.runner import Result, run_scenario, stored
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.parts import Contender
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.plan.advice import Advice
from greenlane_tools.plan.band import bands
from greenlane_tools.plan.differences import NOISE_FRAC
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.options import Option
from greenlane_tools.plan.profile import Profile, carried
from greenlane_tools.plan.set_up import CONNECTIONS, SWITCH_MS, THREADS, SetUp
from greenlane_tools.plan.settings import settings_of
from greenlane_tools.plan.verify.compared import Compared
from greenlane_tools.plan.verify.scenarios import APPLICATION, application_of, classes_of, matched, named, twin

SECONDS: Final = 60.0
_REPETITIONS: Final = 2
GREENLANE: Final = ("{python}", "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")
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
    contenders: list[Contender] = []
    for name, option in options.items():
        settings = None
        if not option.candidate.stock:
            path = asked.folder / f"{name}.toml" if not scenario else folder / f"{name}.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(settings_of(advice, option) if name != "present" else "", encoding="utf-8")
            settings = path.resolve()
        contenders.append(contender_of(name, option.set_up, classes, application, settings))
    whole = replace(asked, contenders=tuple(contenders))
    result = run_scenario(whole, [one.name for one in contenders], stored(whole, folder / "runs"), talk, fresh=fresh)
    slower = {name: slower_than_recorded(advice.profile, name, result) if scenario else None for name in options}
    # The twin computes by the CPU clock: it takes the recorded time on any cores.
    advice = advice if scenario else replace(advice, profile=replace(advice.profile, loop_spread=0.0))
    rows = [
        _compared(advice, goal, name, option, result, classes[goal.route], slower[name])
        for name, option in options.items()
        for goal in advice.judged
        if goal.route in classes
    ]
    return Proof(tuple(rows), (*_notes(options, result), *_cores(slower)), result)


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


def _compared(
    advice: Advice, goal: Goal, name: str, option: Option, result: Result, class_: str, slower: float | None
) -> Compared:
    """Of the requests that were answered in all repetitions; what was not answered counts as late."""
    runs = [run for run in result.runs if run.turn.contender == name]
    found = Samples.joined([run.samples for run in runs]).of(class_)
    latencies_ms = np.sort(found.answered())
    count, asked = len(latencies_ms), max(1, len(found.status))
    seconds = sum(run.seconds for run in runs)
    found_bands = bands(advice.profile, option.set_up, [goal], seed=advice.seed, window_s=seconds, slower=slower)
    band = found_bands[goal.route, goal.limit_ms]
    return Compared(
        name,
        band,
        quantile(latencies_ms, goal.share) if carried(goal.share, count) else None,
        float((latencies_ms <= goal.limit_ms).sum()) / asked if count else None,
        count,
    )


def slower_than_recorded(profile: Profile, name: str, result: Result) -> float | None:
    """By how many times the cores were slower while `name` ran than in the recording; None = not known of both."""
    recorded_us = profile.loop_us
    loops_ns = [run.loop_ns for run in result.runs if run.turn.contender == name and run.loop_ns]
    return fmean(loops_ns) / 1000 / recorded_us if loops_ns and recorded_us else None


def _cores(slower: Mapping[str, float | None]) -> list[str]:
    return [
        f"While {name} ran the cores took {times:.2f} times what they took in the recording; its bands are for that."
        for name, times in slower.items()
        if times is not None and abs(times - 1) > NOISE_FRAC
    ]


def _notes(options: dict[str, Option], result: Result) -> Sequence[str]:
    notes = list(result.remarks)
    usable = len(os.sched_getaffinity(0))
    for name, option in options.items():
        if option.set_up.processes >= usable:
            notes.append(
                f"{name} has {option.set_up.processes} processes on the {usable} cores here, which the load needs too: "
                "measured latencies are longer than they would be on a machine of its own."
            )
    return notes


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
    # Requests bring the deadlines of the recorded ones.
    env = {
        "GREENLANE_CONFIG": str(settings) if settings else "",
        "GREENLANE_TRUSTED_PROXIES": "127.0.0.1",
        **_switching(set_up),
    }
    if set_up.queue == "central":
        command = (
            *GREENLANE, "serve", application, "--kind", "wsgi", "--bind", "{address}",
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
        # A connection that waits for its next request would hold a place: the simulation has none.
        found += ["--keep-alive", "0"] if 0 < set_up.limit < CONNECTIONS else []
    else:
        found += ["--threads", str(set_up.limit or THREADS)]
    return found


def _switching(set_up: SetUp) -> dict[str, str]:
    """The twin sets it for plain threads; Greenlane's worker has it from its settings, a loop has no use for it."""
    if set_up.host != "threads" or set_up.switch_interval_ms == SWITCH_MS:
        return {}
    return {SWITCHING: f"{set_up.switch_interval_ms:g}"}


def _no(set_up: SetUp, name: str, value: object, rule: str, hint: str) -> PlanError:
    return PlanError("verify the plan in the lab", name=name, value=value, rule=rule, hint=hint)
