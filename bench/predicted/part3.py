"""The article's closed loop: its gevent program is recorded once, with as many places as the knee; then everybody runs.

5 ms of CPU around 55 ms of network (2.5, 55, 2.5), N places, each taken again at once. N says the load: 5, 12 (the
knee) and 50. The CPU is by each thread's clock, not counted: a core's speed changes between the recording and a run.
`--loads` and `--record-at` have no meaning here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import blocks
from bench.predicted import recorded_pool
from bench.predicted.rows import Asked, Prediction, Row, row_of
from greenlane.errors import GreenlaneError
from greenlane_serve.settings import ServeSettings
from greenlane_tools.lab.interruption import checkpoint
from greenlane_tools.lab.part3.rows import latencies_ms
from greenlane_tools.lab.part3.run import Run, run
from greenlane_tools.lab.part3.run import expected_s as run_expected_s
from greenlane_tools.lab.part3.runtimes import RUNTIMES, Runtime, Shape
from greenlane_tools.plan.costs import costs_of, unserved
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.simulation import Simulated, rules, simulate
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.verify.reasons import Around

__all__ = ["CONTENDERS", "PLACES", "SHAPE", "expected_s", "measured"]

#: By pricing's names.
CONTENDERS: Final[Mapping[str, str]] = {"gevent": "gevent", "gthread-64": "threads", "greenlane": "greenlane"}
SHAPE: Final = Shape(5, 55)
PLACES: Final = (5, 12, 50)
_RECORDED_PLACES: Final = 12
_HOSTS: Final = {"gevent": "gevent", "threads": "threads", "greenlane": "permits"}
_JOBS: Final = 100_000
#: The program's own lane is pinned heavy: each burst asks for a permit.
_PINNED: Final = rules(ServeSettings(heavy_ms=0.1))
#: A run begins with all places at once and ends with empty ones: this many times the places are left out at each end.
_EDGE: Final = 2
_FEWEST: Final = 300
_RECORD_TIMES: Final = 1.5


def expected_s(asked: Asked) -> float:
    """How long it takes on an idle machine."""
    each = sum(run_expected_s(SHAPE, places, _requests(asked, places)) for places in PLACES)
    one = run_expected_s(SHAPE, _RECORDED_PLACES, round(_RECORD_TIMES * _requests(asked, _RECORDED_PLACES)))
    return one + 5 + each * asked.repetitions * len(_runtimes(asked))


def measured(asked: Asked) -> list[Row]:
    """Records, predicts, measures."""
    profile = _recorded(asked)
    found: dict[tuple[str, int], list[Run]] = {}
    runtimes = _runtimes(asked)
    asked.talk.say("part3: measuring")
    for repetition in range(asked.repetitions):
        for places in PLACES:
            at = repetition % len(runtimes)
            for runtime in [*runtimes[at:], *runtimes[:at]]:
                checkpoint()
                asked.talk.progress(f"part3: {runtime.name}, {places} places")
                one = run(runtime, SHAPE, places, _requests(asked, places), by_clock=True)
                found.setdefault((runtime.name, places), []).append(one)
    asked.talk.progress("")
    return [_row(profile, name, places, runs) for (name, places), runs in found.items()]


def _runtimes(asked: Asked) -> list[Runtime]:
    return [RUNTIMES[CONTENDERS[name]] for name in asked.contenders if name in CONTENDERS]


def _requests(asked: Asked, places: int) -> int:
    return max(_FEWEST, round(SHAPE.most_per_s(places) * asked.run_s / len(PLACES)))


def _recorded(asked: Asked) -> Profile:
    asked.talk.say(f"part3: recording gevent with {_RECORDED_PLACES} places")
    folder = asked.folder / "part3"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    runtime = replace(RUNTIMES["gevent"], name="gevent, recorded", module=recorded_pool.__name__)
    requests = round(_RECORD_TIMES * _requests(asked, _RECORDED_PLACES))
    run(_Recorder(folder, runtime), SHAPE, _RECORDED_PLACES, requests, by_clock=True)
    if not any(folder.iterdir()):
        raise GreenlaneError("record the benchmark's program", name="folder", value=str(folder), rule="a recording")
    profile = replace(opened(str(folder)), host="gevent")
    (asked.folder / "part3.profile.json").write_bytes(profile.to_json())
    return profile


class _Recorder(Runtime):
    """The recorded program, which is no module of the lab's, and runs in a folder of its own."""

    def __init__(self, folder: Path, like: Runtime) -> None:
        found = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        paths = os.pathsep.join(str(Path(part).resolve()) for part in [str(blocks.checkout()), *found])
        environment = {**like.environment, "PYTHONPATH": paths}
        super().__init__(like.name, like.said, like.module, (str(folder.resolve()),), environment, like.needs)

    def command(self, job: str) -> Sequence[str]:
        """As `Runtime`."""
        return [sys.executable, "-m", self.module, job, *self.arguments]


def _row(profile: Profile, contender: str, places: int, runs: Sequence[Run]) -> Row:
    @cache
    def predicted(cpu: float) -> Simulated:
        return _simulated(profile, contender, places, cpu)

    route = profile.routes[0].route
    parts = [np.array(latencies_ms(one.requests[_EDGE * places : -_EDGE * places], "arrival")) for one in runs]
    served = sum(len(one.requests) for one in runs)
    found = Around(
        cpu_ms_per_job=sum(one.cpu_ns for one in runs) / served / 1e6,
        others_cores=sum(one.others_cores for one in runs) / len(runs), late="", errors_frac=0.0,
    )  # fmt: skip

    def again_ms(share: float, cpu: float) -> float:
        return predicted(cpu).route(route).percentile_ms(share)

    at = predicted(1.0).route(route)
    prediction = Prediction(at.percentile, again_ms, at.cpu_ms)
    key = {"system": "part3", "contender": contender, "endpoint": route, "green_threads": places}
    return row_of(key, parts, prediction, found)


def _simulated(profile: Profile, contender: str, places: int, cpu: float) -> Simulated:
    host = _HOSTS[contender]
    table: dict[str, Any] = json.loads(replace(profile, measured={}).simulated(host).to_json())
    table["arrivals"] = {"clients": places}
    for route in table["routes"]:
        for sequence in route["sequences"]:
            sequence["steps"] = [
                [kind, ms * cpu if kind in ("cpu", "free") else ms, *rest] for kind, ms, *rest in sequence["steps"]
            ]
    # Its threads sleep: nothing is sent, and the GIL is given away once. There is no server to hand anything over.
    costs = unserved(costs_of(profile, host, front=False))
    served = SetUp(host, 1, 1, limit=0, costs=costs).to_json()
    return simulate(json.dumps(table).encode(), {"rules": _PINNED, **served}, jobs=_JOBS)
