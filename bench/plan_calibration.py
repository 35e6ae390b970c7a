"""Are the plan's bands right? Services that no constant of the model was fitted on, at loads that were not recorded.

    python -m bench.plan_calibration [--synthetic 2] [--seed N] [--scenario NAME …] [--loads 0.8,1.2]
                                     [--seconds 60] [--record-seconds 120] [--contenders gevent,threads,permits]
                                     [--out FOLDER] [--page]

Question: of the p99 that are measured, how many are in the band that the plan gives, from one recording of the
stock gevent worker? Expected: 9 of 10, and bands no wider than times or by 1.5 below 0.8 of what a process can do.

A synthetic service is a mix of routes drawn from the seed (default: of this minute, so that no fit has seen it), played
by real gunicorn workers. `--scenario` asks a real one: of the lab, or a file of bench/plan_services, whose applications
are installed from PyPI into `--out` first. Each service is recorded once, at 0.6 of what a process can do, then served
by each contender at multiples (`--loads`) of the recorded rates.
A band is for the speed that the cores had in the measurement, as in `greenlane plan --verify`: the loop that the
recording timed is timed then as well ("cores" in the table: by how many times slower it was). A synthetic service
computes by the CPU clock, so it takes as long at any speed. `--page` predicts again, for all that was measured into
`--out`.
"9 of 10 take" says by which factor latencies would have to be wider: `greenlane_tools.plan.band.MODEL`.

What it does not show: services that wait for locks or pools, several processes, machines with other neighbours.
Two cores: a contender has one, the load the other. Exit codes: 0 both hold, 1 one does not, 2 options, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.interruption import ended_by_signals
from greenlane_tools.lab.processes import StartFailed
from greenlane_tools.lab.run.runner import run_scenario, stored
from greenlane_tools.lab.run.talk import LiveTalk, Talk
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario import catalogue, file
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.plan.band import MODEL, Band, bands, surely_better
from greenlane_tools.plan.cliff import full_load
from greenlane_tools.plan.costs import costs_of
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.measured import carried
from greenlane_tools.plan.profile import Arrivals, Profile, Route
from greenlane_tools.plan.route import Sequence as Steps
from greenlane_tools.plan.route import Step
from greenlane_tools.plan.set_up import CONNECTIONS, THREADS, SetUp
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.verify.proof import GREENLANE, contender_of, slower_than_recorded
from greenlane_tools.plan.verify.scenarios import APPLICATION, application_of, matched, named, twin

HOSTS: Final = ("gevent", "threads", "permits")
#: Of what is measured, in its band; and how wide a band may be below this part of a process, times and by.
INSIDE, WIDEST, BELOW = 0.9, 1.5, 0.8
#: Of one core, that a synthetic mix fills at its recorded rates.
_BUSY: Final = 0.6
_SHARE: Final = 0.99
#: Of the goals whose bands are looked at; of no account for a percentile.
_LIMIT_MS: Final = 1000.0
_AS_GOOD: Final = 1.1
_WARM_S: Final = 4.0
_COLUMNS: Final = ("service", "served by", "busy", "route", "cores", "p99 predicted", "measured", "samples", "is")
_SYSTEMS: Final = Path(__file__).parents[1] / "systems"
#: What the services of bench/plan_services need, by their file's name.
# Without what Greenlane's environment has: httpbin's greenlet is older than gevent's.
_INSTALLED: Final = {
    "httpbin": ["--no-deps", *"httpbin==0.10.4 brotlicffi==1.2.1.0 cffi==2.1.1 decorator==5.3.1 six==1.17.0".split()],
    "wiki": ["wiki==0.13.0"],
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What is to be run: loads are times the recorded rates; seconds of each run."""

    loads: tuple[float, ...]
    contenders: tuple[str, ...]
    seconds: float
    record_s: float
    folder: Path
    talk: Talk


def synthetic(seed: int) -> Profile:
    """A mix of three to six routes: some wait, some compute, some both, by laws of different spread."""
    chance = random.Random(seed)
    routes = []
    for number in range(chance.randint(3, 6)):
        calls, cpu_ms = chance.choice((0, 1, 1, 2, 4)), math.exp(chance.uniform(math.log(0.5), math.log(40)))
        spread, io_ms = chance.choice((0.1, 0.5, 1.0)), math.exp(chance.uniform(math.log(5), math.log(150)))
        sequences = tuple(
            Steps(1.0, _steps(chance, calls, cpu_ms, io_ms, spread)) for _ in range(64)
        )  # fmt: skip
        routes.append(Route(f"GET /{number}", chance.uniform(0.3, 1.0), sequences, upstreams=("up",)))
    cpu = sum(route.rate_per_s * (route.demand.cpu_ms + 0.5) for route in routes) / 1000
    routes = [replace(route, rate_per_s=route.rate_per_s * _BUSY / cpu) for route in routes]
    rate = math.fsum(route.rate_per_s for route in routes)
    return Profile(
        name=f"synthetic-{seed}", host="gevent", cores=2, slots=CONNECTIONS, arrivals=Arrivals(rate),
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


def of_synthetic(seed: int, asked: Asked) -> list[Row]:
    """Records the mix as stock gevent serves it, and measures it. The names of routes are those of its twin."""
    mix, folder = synthetic(seed), asked.folder / f"synthetic-{seed}"
    scenario = twin(mix, {}, folder / "twin", seconds=asked.record_s, repetitions=1)
    profile = recorded(mix.name, scenario, folder, asked)
    paths = {one.path: one.name for one in scenario.classes}
    by_route = {route.route: paths[route.route.removeprefix("GET ")] for route in profile.routes
                if route.route.removeprefix("GET ") in paths}  # fmt: skip
    return measured(mix.name, profile, replace(scenario, seconds=asked.seconds), by_route, APPLICATION, asked)


def of_scenario(name: str, asked: Asked) -> list[Row]:
    """A scenario of the lab: recorded where it fills so much of a process, then measured."""
    found = catalogue.found(name)
    whole = _with_installed(replace(
        file.read(found), utilisations_frac=(_BUSY,), bounds=(), expectations=(), seconds=asked.record_s, repetitions=1,
    ), found.stem, asked.folder)  # fmt: skip
    profile = recorded(found.stem, whole, asked.folder / found.stem, asked)
    scenario = _with_installed(named(name, profile, {}, seconds=asked.seconds, repetitions=1), found.stem, asked.folder)
    classes, application = matched(scenario, profile), application_of(scenario)
    return measured(found.stem, profile, scenario, classes, application, asked, timed=True)


def _with_installed(scenario: Scenario, name: str, folder: Path) -> Scenario:
    """The scenario, its processes with the packages that it needs; they are downloaded the first time."""
    ours = _SYSTEMS / name
    to = ours if ours.exists() else (folder / "installed" / name).resolve()
    if name in _INSTALLED and not to.exists():
        install = (sys.executable, "-m", "pip", "install", "--quiet", "--target", str(to), *_INSTALLED[name])
        subprocess.run(install, check=True)
    if not to.exists():
        return scenario
    services = tuple(replace(one, env={**one.env, "PYTHONPATH": str(to)}) for one in scenario.services)
    return replace(scenario, services=services)


def recorded(service: str, scenario: Scenario, folder: Path, asked: Asked) -> Profile:
    """Records it as stock gevent serves it."""
    to = (folder / "recorded.glr").resolve()
    plain = contender_of("recorded", SetUp("gevent", 1, 2, limit=CONNECTIONS), {}, APPLICATION, None)
    command = (str(part) for part in scenario.target().command)
    inner = [each for part in command for each in (plain.arguments if part == "{arguments}" else (part,))]
    record = replace(plain, arguments=(), command=(*GREENLANE, "record", "--force", "-o", str(to), "--", *inner))
    whole = replace(scenario, contenders=(*scenario.contenders, record), warm_s=_WARM_S)
    asked.talk.say(f"{service}: recording for {asked.record_s:g} s")
    run_scenario(whole, ["recorded"], stored(whole, folder / "recording"), asked.talk, fresh=True)
    return _loaded(to, asked.record_s)


def _loaded(path: Path, record_s: float) -> Profile:
    """The profile of the load alone: before it came the warm-up, and before that who asked whether it is ready."""
    return opened(str(path), skip_s=max(0.0, opened(str(path)).seconds - record_s))


def measured(
    service: str, profile: Profile, scenario: Scenario, classes: dict[str, str], application: str, asked: Asked,
    *, timed: bool = False,
) -> list[Row]:  # fmt: skip
    """Serves each contender at each load. `timed`: its work takes longer on slower cores."""
    set_ups = _set_ups(profile, asked.contenders)
    empty = asked.folder / "empty.toml"
    empty.write_text("", encoding="utf-8")
    contenders = tuple(
        contender_of(host, set_up, classes, application, empty.resolve() if host == "permits" else None)
        for host, set_up in set_ups.items()
    )
    busy = 1 / full_load(profile, SetUp(profile.host, 1, profile.cores))
    rows: list[Row] = []
    for load in asked.loads:
        rated = tuple(replace(one, rate_per_s=one.rate_per_s * load) for one in scenario.classes)
        whole = replace(scenario, classes=rated, contenders=contenders)
        asked.talk.say(f"{service}: {', '.join(set_ups)} at {busy * load:.2f} of a process")
        kept = stored(whole, asked.folder / service.replace("/", "-") / f"x{load:g}")
        result = run_scenario(whole, list(set_ups), kept, asked.talk, fresh=True)
        for host in set_ups:
            found = Samples.joined([run.samples for run in result.runs if run.turn.contender == host])
            slower = slower_than_recorded(profile, host, result) if timed else None
            for route, name in classes.items():
                latencies_ms = np.sort(found.of(name).answered())
                if carried(_SHARE, 5 * len(latencies_ms)):  # two requests beyond the percentile
                    rows.append({
                        "service": service, "contender": host, "utilisation_frac": busy * load, "endpoint": route,
                        "rate_factor": load, "seconds": asked.seconds, "record_s": asked.record_s, "timed": timed,
                        "slower": slower,
                        "p99_ms": quantile(latencies_ms, _SHARE), "samples": len(latencies_ms),
                    })  # fmt: skip
        (asked.folder / f"{service}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


def _set_ups(profile: Profile, hosts: Sequence[str]) -> dict[str, SetUp]:
    return {
        host: SetUp(host, 1, profile.cores, limit=CONNECTIONS if host == "gevent" else THREADS,
                    costs=costs_of(profile, host, front=False))
        for host in hosts
    }  # fmt: skip


def predicted(rows: Sequence[Row], folder: Path) -> list[Row]:
    """The rows with the band of each, from the service's recording in the folder."""
    found = []
    profiles: dict[str, Profile] = {}
    known: dict[tuple[object, ...], tuple[Mapping[tuple[str, float], Band], ...]] = {}
    for row in rows:
        service, host = row["service"], row["contender"]
        if service not in profiles:
            profile = _loaded(folder / service / "recorded.glr", row["record_s"])
            profiles[service] = profile if row["timed"] else replace(profile, loop_spread=0.0)
        profile, run = profiles[service], (service, host, row["rate_factor"])
        if run not in known:
            goals = [Goal(route.route, _SHARE, _LIMIT_MS) for route in profile.routes]
            set_up, load = _set_ups(profile, [host])[host], row["rate_factor"]
            known[run] = (
                bands(profile, set_up, goals, seed=1, load=load, window_s=row["seconds"], slower=row["slower"]),
                bands(profile, set_up, goals, seed=1, load=load),
            )
        band, long = (each[row["endpoint"], _LIMIT_MS] for each in known[run])
        inside = band.low_ms <= row["p99_ms"] <= band.high_ms
        found.append({**row, "p99_low_ms": band.low_ms, "p99_high_ms": band.high_ms, "inside": inside,
                      "plans": long, "width": math.sqrt(long.high_ms / long.low_ms)})  # fmt: skip
    return found


def verdict(rows: Sequence[Row]) -> tuple[float, float, float]:
    """(share that is inside; the widest band where that counts, as a plan prints it: of five minutes, at any speed; the
    model's factor that 9 of 10 would take)."""
    if not rows:
        return math.nan, math.nan, math.nan
    inside = sum(row["inside"] for row in rows) / len(rows)
    widest = max(_widths(rows), default=1.0)
    off = sorted(
        max(row["p99_low_ms"] / row["p99_ms"], row["p99_ms"] / row["p99_high_ms"]) * MODEL for row in rows
    )  # fmt: skip
    return inside, widest, max(1.0, off[math.ceil(INSIDE * len(off)) - 1])


def page(rows: Sequence[Row]) -> str:
    """Each band beside its measurement, and the verdict: Markdown."""
    inside, widest, factor = verdict(rows)
    widths = _widths(rows)
    wider = f"{sum(width > WIDEST for width in widths)} of {len(widths)}"
    lines = [
        f"**{inside:.0%} of {len(rows)}** in their bands (wanted {INSIDE:.0%}). {_recommended(rows)}",
        f"A plan's band of five minutes is wider than ×/÷ {WIDEST:g} for {wider} below {BELOW:g} of a process (×/÷ "
        f"{widest:.2f} at most). 9 of 10 take MODEL = {factor:.2f} (is {MODEL:g}).",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{'---|' * len(_COLUMNS)}",
    ]
    for row in rows:
        cells = (
            row["service"], row["contender"], f"{row['utilisation_frac']:.2f}", row["endpoint"].replace("|", "\\|"),
            "-" if row["slower"] is None else f"{row['slower']:.2f}",
            f"{row['p99_low_ms']:.0f} to {row['p99_high_ms']:.0f} ms", f"{row['p99_ms']:.0f} ms", f"{row['samples']:,}",
            "in" if row["inside"] else "**out**",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _widths(rows: Sequence[Row]) -> list[float]:
    return [row["width"] for row in rows if row["utilisation_frac"] < BELOW]


def _recommended(rows: Sequence[Row]) -> str:
    """Whether another way is better where the plan is sure of it, and none where it leaves the present one."""
    better, left = list[bool](), list[bool]()
    for present, *others in _by_route(rows):
        sure = [row for row in others if surely_better([row["plans"]], [present["plans"]])]
        best = min(row["p99_ms"] for row in sure or others)
        better += [best < present["p99_ms"]] if sure else []
        left += [] if sure else [best * _AS_GOOD >= present["p99_ms"]]
    return (
        f"Another way than {HOSTS[0]} is surely better for {len(better)} of them: {sum(better)} were. "
        f"{len(left)} are left: for {sum(left)} no other way was better by {_AS_GOOD - 1:.0%}."
    )


def _by_route(rows: Sequence[Row]) -> list[list[Row]]:
    """What was measured of several hosts, by service, load and route."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: HOSTS.index(row["contender"])):
        found.setdefault((row["service"], row["rate_factor"], row["endpoint"]), []).append(row)
    return [each for each in found.values() if len(each) > 1]


def run(asked: Asked, seeds: Sequence[int], scenarios: Sequence[str]) -> list[Row]:
    """All services, one after the other. Blocks; no process is left."""
    rows = [row for seed in seeds for row in of_synthetic(seed, asked)]
    return predicted([*rows, *(row for name in scenarios for row in of_scenario(name, asked))], asked.folder)


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.plan_calibration", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("--synthetic", type=int, default=2, help="mixes (2)")
    add("--seed", type=int, default=int(time.time()) // 60, help="of the first mix")
    add("--scenario", action="append", default=[], metavar="NAME|FILE", help="of the lab, with a WSGI service")
    add("--loads", default="0.8,1.2", help="times the recorded rates")
    add("--contenders", default=",".join(HOSTS))
    add("--seconds", type=float, default=60.0)
    add("--record-seconds", type=float, default=120.0)
    add("--out", type=Path, default=Path("out/calibration"))
    add("--page", action="store_true", help="measure nothing: print all that is in --out")
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    asked = Asked(
        tuple(float(part) for part in given.loads.split(",")), tuple(given.contenders.split(",")), given.seconds,
        given.record_seconds, given.out, LiveTalk(sys.stderr, sys.stderr),
    )  # fmt: skip
    try:
        with ended_by_signals():
            rows = [] if given.page else run(asked, range(given.seed, given.seed + given.synthetic), given.scenario)
    except (GreenlaneError, StartFailed) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    if given.page:
        kept = [row for path in sorted(given.out.glob("*.json")) for row in json.loads(path.read_text("utf-8"))]
        rows = predicted(kept, given.out)
    print(page(rows), end="")
    inside, widest, _ = verdict(rows)
    return 0 if inside >= INSIDE and widest <= WIDEST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
