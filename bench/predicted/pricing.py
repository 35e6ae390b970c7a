"""The pricing service: its stock gevent worker is recorded once, at one load; the lab's scenario measures everybody.

Predictions are for the speed that each request's core had (speed.py); beside them stands what the recording alone says.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Final

from bench import blocks
from bench.predicted.rows import FIGURES, Asked, Prediction, Row, cleared, row_of
from bench.predicted.speed import AtOneSpeed, Speed, metered
from bench.recorded_contenders import RECORD, watched
from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run import work_unit
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.runner import run_scenario, stored
from greenlane_tools.lab.run.store import Store
from greenlane_tools.lab.scenario.catalogue import adapted
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.plan.costs import costs_of
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.recorded import profile_of_recording
from greenlane_tools.plan.set_up import CONNECTIONS, SWITCH_MS, SetUp
from greenlane_tools.plan.verify.reasons import around
from greenlane_tools.plan.verify.replay import Replay, SentRequest, by_work, came_of, replayed
from greenlane_tools.plan.verify.scenarios import matched
from greenlane_tools.reader.recording import open_recording

__all__ = ["CONTENDERS", "RECORDING", "expected_s", "measured", "recorded", "set_up_of"]

CONTENDERS: Final = ("gevent", "gthread-64", "gthread-64-0.5ms", "greenlane")
RECORDING: Final = "pricing.glr"
_HOSTS: Final = {
    "gevent": ("gevent", CONNECTIONS, SWITCH_MS),
    "gthread-64": ("threads", 64, SWITCH_MS),
    "gthread-64-0.5ms": ("threads", 64, 0.5),
    "greenlane": ("permits", 64, SWITCH_MS),
}
_PROGRAM: Final = Path(__file__).with_name("metered_pricing.py")
_CALIBRATED_S: Final = 1.5
#: Start, calibration, warm-up, drain; of each run the generator's start and the drain.
_AROUND_S, _AROUND_RUN_S = 35.0, 1.5
_OK: Final = 200

Costs = tuple[dict[str, float], int]


def expected_s(asked: Asked) -> float:
    """How long it takes on an idle machine."""
    runs = len(asked.contenders) * len(asked.loads) * asked.repetitions
    return _AROUND_S + asked.record_s + runs * (asked.run_s + _AROUND_RUN_S)


def measured(asked: Asked) -> list[Row]:
    """Records, predicts, measures."""
    costs = _calibrated(asked)
    profile, plain = recorded(asked, costs)
    scenario = adapted(
        replace(pricing(), bounds=(), expectations=()), seconds=asked.seconds, repetitions=asked.repetitions,
        utilisations_frac=asked.loads,
    )  # fmt: skip
    notes = asked.folder / "speed"
    scenario = _metered(scenario, notes)
    asked.talk.say("pricing: measuring")
    result = run_scenario(scenario, asked.contenders, _kept(scenario, asked.folder / "pricing", costs), asked.talk)
    rows: list[Row] = []
    for level in scenario.levels():
        for name in asked.contenders:
            runs = [run for run in result.runs if (run.turn.contender, run.turn.level) == (name, level)]
            if runs:
                asked.talk.progress(f"predicting {name} at {level.label}")
                rows += _rows(scenario, profile, name, runs, metered(notes / name, costs[1]))
                _add_plain(rows, scenario, plain, name, runs)
    asked.talk.progress("")
    return rows


def recorded(asked: Asked, costs: Costs) -> tuple[Profile, Profile]:
    """The profile of the stock gevent worker, recorded under the scenario's load: in CPU of the calibrated core, and as
    it was recorded. The recording stays in the folder.
    """
    file = cleared(asked.folder / RECORDING)
    scenario = watched([RECORD], "gevent", None)
    into = (replace(one, command=tuple(_into(part, file) for part in one.command)) for one in scenario.contenders)
    scenario = adapted(
        replace(scenario, contenders=tuple(into), calibrated_on=RECORD, name="recorded"), seconds=asked.record_s,
        repetitions=1, utilisations_frac=(asked.record_at,),
    )  # fmt: skip
    asked.talk.say(f"pricing: recording gevent at {asked.record_at:g} for {asked.record_s:g} s")
    notes = asked.folder / "speed-recorded"
    scenario = _metered(scenario, notes)
    run_scenario(scenario, [RECORD], _kept(scenario, asked.folder / "recorded", costs), asked.talk)
    speed = metered(notes / RECORD, costs[1])
    asked.talk.say(f"pricing: work took {speed.mean:.2f} times what it took when it was calibrated; taken off")
    profile = profile_of_recording(AtOneSpeed(file, speed), "pricing", skip_s=scenario.warm_s)
    (asked.folder / "pricing.profile.json").write_bytes(profile.to_json())
    return profile, profile_of_recording(open_recording(file), "pricing", skip_s=scenario.warm_s)


def set_up_of(profile: Profile, contender: str) -> SetUp:
    """How a contender serves."""
    host, limit, interval_ms = _HOSTS[contender]
    costs = costs_of(profile, host, front=False)
    return SetUp(host, 1, max(1, profile.cores), limit=limit, switch_interval_ms=interval_ms, costs=costs)


def _metered(scenario: Scenario, folder: Path) -> Scenario:
    """The same, where the service notes its core's speed in files of the folder that are named like the contenders."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    service = scenario.target()
    metered_service = replace(
        service, files=(*service.files, str(_PROGRAM)), command=tuple(map(_app, service.command))
    )  # fmt: skip
    return replace(
        scenario,
        services=tuple(metered_service if one is service else one for one in scenario.services),
        contenders=tuple(
            replace(
                one, env={**one.env, "METERED_FILE": str((folder / one.name).resolve())},
                command=tuple(map(_app, one.command)),
            )
            for one in scenario.contenders
        ),
    )  # fmt: skip


def _app(part: str) -> str:
    return f"{_PROGRAM.stem}:app" if part == "pricing:app" else part


def _into(part: str, file: Path) -> str:
    return str(file.resolve()) if part.endswith("/pricing.glr") else part


def _calibrated(asked: Asked) -> Costs:
    asked.talk.say("pricing: calibrating what a request costs, on stock gthread")
    scenario = pricing()
    iterations = work_unit.iterations_per_ms(scenario.work, scenario.folder, rounds=200)
    return blocks.calibrated(False, iterations, _CALIBRATED_S), iterations


def _kept(scenario: Scenario, folder: Path, costs: Costs) -> Store:
    kept = stored(scenario, folder)
    kept.open(fresh=True)
    for name, value in zip(("costs_ms", "iterations_per_ms"), costs, strict=True):
        kept.keep_note(name, value)
    return kept


def _rows(scenario: Scenario, profile: Profile, contender: str, runs: Sequence[Run], speed: Speed) -> list[Row]:
    classes, came = _came(scenario, profile, runs, [_times(run, speed) for run in runs])
    if not came:
        return []
    set_up, found = set_up_of(profile, contender), around(runs)

    @cache
    def replay(cpu: float) -> Replay:
        return replayed(profile, set_up, came, cpu=cpu)

    at = replay(1.0)
    rows = []
    for name, route in classes.items():
        key = {
            "system": "pricing", "contender": contender, "endpoint": name,
            "utilisation_frac": runs[0].turn.level.utilisation_frac,
        }  # fmt: skip
        again = partial(_again_ms, replay, route)
        predicted = Prediction(partial(at.percentile, route), again, at.cpu_ms)
        row = row_of(key, [run.samples.of(name).answered() for run in runs], predicted, found)
        limit_ms = scenario.request_class(name).deadline_ms
        if limit_ms and row["samples"]:
            within = [run.samples.of(name) for run in runs]
            hits = sum(int((one.latency_ms()[one.status == _OK] <= limit_ms).sum()) for one in within)
            row["within_deadline_frac"] = hits / sum(map(len, within))
            row["predicted_within_deadline_frac"] = at.within(route, limit_ms).at
        rows.append(row)
    return rows


def _came(
    scenario: Scenario, profile: Profile, runs: Sequence[Run], times: Sequence[Sequence[float]] = ()
) -> tuple[dict[str, str], list[SentRequest]]:
    """Route by class, and the requests that came."""
    routes = matched(scenario, profile)
    asked = by_work(profile, {route: scenario.request_class(name) for route, name in routes.items()})
    classes = {name: route for route, name in routes.items()}
    return classes, came_of([run.samples for run in runs], classes, asked, times)


def _add_plain(rows: list[Row], scenario: Scenario, profile: Profile, contender: str, runs: Sequence[Run]) -> None:
    """What the recording alone says, which knows no core's speed, to the rows of these runs."""
    of, came = _came(scenario, profile, runs)
    if not came:
        return
    at = replayed(profile, set_up_of(profile, contender), came)
    for row in rows[-len(of) :]:
        for name, share, most, _ in FIGURES:
            if f"{name}_ms" in row:
                said = at.percentile(of[row["endpoint"]], share).at
                row[f"plain_{name}_ms"] = said
                row[f"plain_{name}_within"] = abs(said / row[f"{name}_ms"] - 1) <= most


def _times(run: Run, speed: Speed) -> list[float]:
    """Of each request, from when it was due to its answer."""
    samples = run.samples
    return [
        speed.times(run.began_ns + int(due_ns), run.began_ns + int(done_ns))
        for due_ns, done_ns in zip(samples.scheduled_ns, samples.done_ns, strict=True)
    ]


def _again_ms(replay: Callable[[float], Replay], route: str, share: float, cpu: float) -> float:
    return replay(cpu).percentile(route, share).at
