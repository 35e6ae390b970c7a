"""What is claimed of the plan: how fast it simulates, that its bands are right, and what its advice is worth.

Questions: how many requests a second are simulated; of the p99 of services that no constant was fitted on, how many are
in the band that was said before; does the advice from a service's numbers turn its failures into successes? Expected: a
million requests a second of M/M/1 on one core, and a plan's 200 cells of a million in four minutes on all; 9 of 10 in
their bands, which are no wider than times or by 1.5 below 0.8 of a process; permits or a lane recommended for pricing's
model, and its share in time in its band.

A service is a mix of routes drawn from a seed, played by real gunicorn workers: recorded once as stock gevent serves
it, at 0.6 of what a process can do, then served by each contender at multiples of the recorded rates. It computes by
the CPU clock, so it takes as long at any speed of the cores. Real services: `bench.plan_calibration` of 9d266ce4.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.claims import Claim, of_verdicts
from greenlane_tools.lab.run.runner import run_scenario, stored
from greenlane_tools.lab.run.store import digest
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.plan.advice import advised
from greenlane_tools.plan.band import MODEL, bands, full_load
from greenlane_tools.plan.goal import Goal, goals
from greenlane_tools.plan.profile import Arrivals, Profile, carried
from greenlane_tools.plan.route import Route, Step
from greenlane_tools.plan.route import Sequence as Steps
from greenlane_tools.plan.set_up import CONNECTIONS, THREADS, SetUp, costs_of
from greenlane_tools.plan.simulation import SimulationCell, simulate, simulate_cells
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.verify.proof import GREENLANE, contender_of, proven
from greenlane_tools.plan.verify.scenarios import APPLICATION, twin

_SECONDS, _QUICK_S = 60.0, 3.0
_RECORD_S, _QUICK_RECORD_S = 120.0, 5.0
_AROUND_S: Final = 12.0
_ADVICE_S, _SPEED_S = 60.0, 80.0
_LOADS: Final = (0.8, 1.2)
_SEEDS: Final = (101, 102)
_HOSTS: Final = ("gevent", "threads", "permits")
_GOAL: Final = "bikes p99 <= 400ms"
_HERE: Final = Path(__file__)
_MODEL: Final = _HERE.parents[1] / "packages/greenlane-tools/tests/oncall/models/pricing.toml"
#: Of what is measured, in its band; and how wide a band may be below this part of a process, times and by.
_INSIDE, _WIDEST, _BELOW = 0.9, 1.5, 0.8
#: Of one core, that a mix fills at its recorded rates.
_BUSY: Final = 0.6
_SHARE: Final = 0.99
#: Of the goals whose bands are looked at; of no account for a percentile.
_LIMIT_MS: Final = 1000.0
_WARM_S: Final = 4.0
#: A plan's cells and the requests of each; those where only the way there is tried.
_SPEED, _SPEED_QUICK = (200, 1_000_000), (20, 100_000)
_LEAST_PER_S, _MOST_S = 1_000_000.0, 240.0
_MM1: Final = [{"steps": [["cpu", -10 * math.log((part + 0.5) / 1000)]]} for part in range(1000)]
_PLAINEST: Final = {"routes": [{"route": "a", "rate_per_s": 90, "sequences": _MM1}]}
_BIKES: Final = {"steps": [["cpu", 1], ["io", 100], ["cpu", 1], ["io", 100], ["cpu", 1], ["io", 100], ["cpu", 1]]}
_QUOTE: Final = {"steps": [["cpu", 16]]}
_SPREAD: Final[tuple[dict[str, Any], ...]] = (
    {"processes": 1}, {"processes": 2, "queue": "accept"}, {"processes": 4, "queue": "central"},
)  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class _Asked:
    seconds: float
    record_s: float
    folder: Path
    talk: Talk


def expected_s(quick: bool) -> float:
    """How long the runs take on an idle machine."""
    seconds, record_s = (_QUICK_S, _QUICK_RECORD_S) if quick else (_SECONDS, _RECORD_S)
    runs = len(_SEEDS) * (record_s + len(_LOADS) * len(_HOSTS) * (seconds + _AROUND_S))
    return runs + 2 * (seconds + _AROUND_S) + (14 if quick else _ADVICE_S + _SPEED_S)


def installed() -> None:
    """Nothing else is needed."""


def sources() -> str:
    """Of all that its result depends on beside the package, sixteen digits."""
    return digest(_HERE.read_bytes(), _MODEL.read_bytes())


def measure(quick: bool, talk: Talk) -> list[dict[str, Any]]:
    """Runs everything; gives verdicts as they can be stored."""
    with tempfile.TemporaryDirectory(prefix="gl-prove-") as folder:
        asked = _Asked(
            _QUICK_S if quick else _SECONDS, _QUICK_RECORD_S if quick else _RECORD_S, Path(folder), talk
        )  # fmt: skip
        rows = [row for seed in _SEEDS for row in _calibrated(seed, asked)]
        return [*_speed(quick), *_judged(rows), *_advised(asked, quick)]


def claims(verdicts: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """What is claimed of them."""
    return of_verdicts("plan", verdicts, digits=4)


def _mix(seed: int) -> Profile:
    """Three to six routes: some wait, some compute, some both, by laws of different spread."""
    chance = random.Random(seed)
    routes = []
    for number in range(chance.randint(3, 6)):
        calls, cpu_ms = chance.choice((0, 1, 1, 2, 4)), math.exp(chance.uniform(math.log(0.5), math.log(40)))
        spread, io_ms = chance.choice((0.1, 0.5, 1.0)), math.exp(chance.uniform(math.log(5), math.log(150)))
        sequences = tuple(Steps(1.0, _steps(chance, calls, cpu_ms, io_ms, spread)) for _ in range(64))
        routes.append(Route(f"GET /{number}", chance.uniform(0.3, 1.0), sequences, upstreams=("up",)))
    cpu = sum(route.rate_per_s * (route.demand.cpu_ms + 0.5) for route in routes) / 1000
    routes = [replace(route, rate_per_s=route.rate_per_s * _BUSY / cpu) for route in routes]
    return Profile(
        name=f"synthetic-{seed}", host="gevent", cores=2, slots=CONNECTIONS,
        arrivals=Arrivals(math.fsum(route.rate_per_s for route in routes)),
        routes=tuple(sorted(routes, key=lambda each: -each.rate_per_s)),
    )  # fmt: skip


def _steps(chance: random.Random, calls: int, cpu_ms: float, io_ms: float, spread: float) -> tuple[Step, ...]:
    sigma = math.sqrt(math.log1p(spread**2))

    def about(ms: float) -> float:
        return ms * math.exp(chance.gauss(-(sigma**2) / 2, sigma))

    steps = [Step("cpu", about(cpu_ms / (calls + 1)))]
    for _ in range(calls):
        steps += [Step("io", about(io_ms), 0), Step("cpu", about(cpu_ms / (calls + 1)))]
    return tuple(steps)


def _calibrated(seed: int, asked: _Asked) -> list[Row]:
    """Records the mix as stock gevent serves it, and measures it. The names of routes are those of its twin."""
    mix, folder = _mix(seed), asked.folder / f"synthetic-{seed}"
    scenario = twin(mix, {}, folder / "twin", seconds=asked.record_s, repetitions=1)
    profile = _recorded(scenario, folder, asked)
    paths = {f"GET {one.path}": one.name for one in scenario.classes}
    classes = {route.route: paths[route.route] for route in profile.routes if route.route in paths}
    return _measured(mix.name, profile, replace(scenario, seconds=asked.seconds), classes, asked)


def _recorded(scenario: Scenario, folder: Path, asked: _Asked) -> Profile:
    to = (folder / "recorded.glr").resolve()
    plain = contender_of("recorded", SetUp("gevent", 1, 2, limit=CONNECTIONS), {}, APPLICATION, None)
    command = (str(part) for part in scenario.target().command)
    inner = [each for part in command for each in (plain.arguments if part == "{arguments}" else (part,))]
    record = replace(plain, arguments=(), command=(*GREENLANE, "record", "--force", "-o", str(to), "--", *inner))
    whole = replace(scenario, contenders=(*scenario.contenders, record), warm_s=_WARM_S)
    run_scenario(whole, ["recorded"], stored(whole, folder / "recording"), asked.talk, fresh=True)
    # The load alone: before it came the warm-up, and before that who asked whether it is ready.
    skip_s = max(0.0, opened(str(to)).seconds - asked.record_s)
    return replace(opened(str(to), skip_s=skip_s), loop_spread=0.0)


def _measured(name: str, profile: Profile, scenario: Scenario, classes: dict[str, str], asked: _Asked) -> list[Row]:
    """Each contender at each load: every p99 beside its band of this run, and of five minutes as a plan prints it."""
    set_ups = {
        host: SetUp(host, 1, profile.cores, limit=CONNECTIONS if host == "gevent" else THREADS,
                    costs=costs_of(profile, host, front=False))
        for host in _HOSTS
    }  # fmt: skip
    empty = (asked.folder / "empty.toml").resolve()
    empty.write_text("", encoding="utf-8")
    contenders = tuple(
        contender_of(host, set_up, classes, APPLICATION, empty if host == "permits" else None)
        for host, set_up in set_ups.items()
    )
    busy = 1 / full_load(profile, SetUp(profile.host, 1, profile.cores))
    wanted = [Goal(route.route, _SHARE, _LIMIT_MS) for route in profile.routes]
    rows: list[Row] = []
    for load in _LOADS:
        rated = tuple(replace(one, rate_per_s=one.rate_per_s * load) for one in scenario.classes)
        whole = replace(scenario, classes=rated, contenders=contenders)
        asked.talk.say(f"{name}: {', '.join(set_ups)} at {busy * load:.2f} of a process")
        result = run_scenario(
            whole, list(set_ups), stored(whole, asked.folder / name / f"x{load:g}"), asked.talk, fresh=True
        )
        for host, set_up in set_ups.items():
            found = Samples.joined([run.samples for run in result.runs if run.turn.contender == host])
            now = bands(profile, set_up, wanted, seed=1, load=load, window_s=asked.seconds)
            long = bands(profile, set_up, wanted, seed=1, load=load)
            for route, its_class in classes.items():
                latencies_ms = np.sort(found.of(its_class).answered())
                if not carried(_SHARE, 5 * len(latencies_ms)):  # two requests beyond the percentile
                    continue
                band, plans = now[route, _LIMIT_MS], long[route, _LIMIT_MS]
                p99_ms = quantile(latencies_ms, _SHARE)
                rows.append({
                    "what": f"{name} {host} {route}", "busy": busy * load,
                    "inside": band.low_ms <= p99_ms <= band.high_ms,
                    "off": max(band.low_ms / p99_ms, p99_ms / band.high_ms) * MODEL,
                    "width": math.sqrt(plans.high_ms / plans.low_ms),
                })  # fmt: skip
    return rows


def _judged(rows: Sequence[Row]) -> list[dict[str, Any]]:
    if not rows:
        return []
    inside = sum(row["inside"] for row in rows) / len(rows)
    widest = max((row["width"] for row in rows if row["busy"] < _BELOW), default=1.0)
    factor = max(1.0, sorted(row["off"] for row in rows)[math.ceil(_INSIDE * len(rows)) - 1])
    out = ", ".join(row["what"] for row in rows if not row["inside"])
    remark = f"of {len(rows)}; 9 of 10 take a factor of {factor:.2f}; out: {out or 'none'}"
    return [
        _verdict("p99 measured in the band that was said before, share", inside, ">=", _INSIDE, remark),
        _verdict("widest band below 0.8 of a process, times and by", widest, "<=", _WIDEST, ""),
    ]


def _advised(asked: _Asked, quick: bool) -> list[dict[str, Any]]:
    profile = opened(str(_MODEL))
    asked.talk.say(f"plan: {_GOAL}")
    advice = advised(profile, goals([_GOAL], profile), jobs=20_000 if quick else 1_000_000)
    chosen = advice.recommended
    kept = chosen is not None and (chosen.set_up.host == "permits" or bool(chosen.set_up.lanes))
    said = chosen.candidate.said if chosen else advice.verdict.value
    found = [_verdict("pricing: permits or a lane recommended (1 = yes)", float(kept), ">=", 1.0, said)]
    if chosen is None:
        return found
    proof = proven(advice, asked.folder / "verify", asked.talk, seconds=asked.seconds, fresh=True)
    row = proof.rows[-1]
    remark = f"{row.band.low_within:.2%} to {row.band.high_within:.2%} predicted, {row.samples} measured"
    text = "pricing: share in time after the change, not below its band"
    return [*found, _verdict(text, row.measured_within or 0.0, ">=", row.band.low_within, remark)]


def _speed(quick: bool) -> list[dict[str, Any]]:
    count, jobs = _SPEED_QUICK if quick else _SPEED
    took = [_took_s(lambda: simulate(_PLAINEST, {"host": "gevent"}, jobs=jobs)) for _ in range(1 if quick else 5)]
    per_s = (jobs + min(jobs // 10, 200_000)) / statistics.median(took)
    cells = [_cell(number, jobs) for number in range(count)]
    most_s = _MOST_S * count * jobs / math.prod(_SPEED)
    of_each = f"{jobs:,} requests each"
    return [
        _verdict("simulator: M/M/1 on one core, million requests a second", per_s / 1e6, ">=", _LEAST_PER_S / 1e6,
                 of_each),
        _verdict(f"simulator: a plan's {count} cells on all cores, s", _took_s(lambda: simulate_cells(cells)), "<=",
                 most_s, of_each),
    ]  # fmt: skip


def _cell(number: int, jobs: int) -> SimulationCell:
    """Hosts, processes and loads as a plan has them."""
    over = _SPREAD[number // 3 % 3]
    routes = [
        {"route": "bikes", "rate_per_s": 20 * over["processes"], "sequences": [_BIKES]},
        {"route": "quote", "rate_per_s": 48 * over["processes"], "sequences": [_QUOTE]},
    ]
    set_up = {"host": _HOSTS[number % 3], **over}
    return SimulationCell(
        {"routes": routes}, set_up, jobs=jobs, seed=1 + number // 54, load=0.5 + 0.1 * (number // 9 % 6)
    )


def _took_s(once: Any) -> float:
    began = time.perf_counter()
    once()
    return time.perf_counter() - began


def _verdict(text: str, measured: float, relation: str, target: float, remark: str) -> dict[str, Any]:
    return {"text": text, "measured": measured, "low": None, "high": None, "relation": relation, "target": target,
            "unit": "", "remark": remark}  # fmt: skip
