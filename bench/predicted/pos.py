"""Orders over RabbitMQ to ten merchants, all well: stock Celery's gevent pool is recorded once; then everybody runs.

300 ms at the merchant, 3 ms of CPU before it, orders at an even rate. A load of 1 is what the slowest of the three can
do here: 180 orders a second. Latency is from the instant at which an order is due to be published to the merchant's
answer: publishing and the broker, some milliseconds, are in it and in no profile.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.predicted.rows import Asked, Prediction, Row, cleared, row_of
from greenlane_tools.plan.costs import costs_of, unserved
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.verify.reasons import Around
from greenlane_tools.plan.verify.replay import Replay, SentRequest, replayed

__all__ = ["CONTENDERS", "FULL_PER_S", "RECORDED", "RECORDING", "expected_s", "installed", "measured", "site_with"]

#: By pricing's names.
CONTENDERS: Final[Mapping[str, str]] = {"gevent": "gevent-200", "gthread-64": "threads-100", "greenlane": "greenlane"}
RECORDING: Final = "pos.glr"
FULL_PER_S: Final = 180.0
#: The name of the gevent pool under the recorder.
RECORDED: Final = "recorded"
_HOSTS: Final = {"gevent-200": ("gevent", 200), "threads-100": ("threads", 100), "greenlane": ("permits", 200)}
_CALL_MS, _WORK_MS = 300.0, 3.0
#: What gunicorn's threads cost says nothing of Celery's. Its clients keep their connections: they send and receive;
#: with permits they send with the GIL kept.
_RELEASES: Final = {"gevent": 0, "threads": 2, "permits": 1}
_SETTLE_S: Final = 2.0
#: The first orders of a run meet a worker that has just started.
_SKIP_S: Final = 2.0
_START_S, _AROUND_RUN_S = 20.0, 9.0
_SYSTEM: Final = Path(__file__).resolve().parents[2] / "systems" / "pos"


@dataclass(frozen=True)
class _Run:
    """One contender's orders. `latency_ms`: None = never done."""

    due_ms: Sequence[float]
    latency_ms: Sequence[float | None]
    cpu_ms: float
    errors: int


def expected_s(asked: Asked) -> float:
    """How long it takes on an idle machine."""
    runs = len(_names(asked)) * len(asked.loads) * asked.repetitions
    return _START_S + asked.record_s + _AROUND_RUN_S + runs * (asked.run_s + _AROUND_RUN_S)


def installed() -> None:
    """Raises PlatformError when the machine has no RabbitMQ."""
    _ready()
    from pos.broker import installed as there

    there()


def measured(asked: Asked) -> list[Row]:
    """Records, predicts, measures."""
    _ready()
    from pos.site import Plan

    file = cleared(asked.folder / RECORDING)
    asked.talk.say("pos: starting RabbitMQ and ten merchants")
    found: dict[tuple[str, float], list[_Run]] = {}
    names = _names(asked)
    with site_with(Plan(law={"median_ms": _CALL_MS, "p99_ms": _CALL_MS}, work_ms=_WORK_MS), file) as site:
        asked.talk.say(f"pos: recording gevent-200 at {asked.record_at * FULL_PER_S:.0f} orders a second")
        _one(site, RECORDED, asked.record_at, asked.record_s, "recorded", asked)
        profile = _profile(file)
        (asked.folder / "pos.profile.json").write_bytes(opened(str(file), skip_s=_SKIP_S).to_json())
        asked.talk.say("pos: measuring")
        for repetition in range(asked.repetitions):
            for load in asked.loads:
                at = repetition % len(names)
                for name in [*names[at:], *names[:at]]:
                    prefix = f"{name}-{load:g}-{repetition}"
                    found.setdefault((name, load), []).append(_one(site, name, load, asked.run_s, prefix, asked))
    asked.talk.progress("")
    return [_row(profile, name, load, runs) for (name, load), runs in found.items()]


def _profile(file: Path) -> Profile:
    """Its worker is one loop, whatever the tasks' program is called."""
    return replace(opened(str(file), skip_s=_SKIP_S), host="gevent")


def _names(asked: Asked) -> list[str]:
    return [CONTENDERS[name] for name in asked.contenders if name in CONTENDERS]


def _one(site: Any, name: str, load: float, seconds: float, prefix: str, asked: Asked) -> _Run:
    from pos.demo.stages import slow

    found = slow(site, name, prefix, load * FULL_PER_S, seconds, asked.talk, _SETTLE_S)
    done = [order for order in found["orders"] if order[1] >= _SKIP_S * 1000 or seconds <= 2 * _SKIP_S]
    return _Run(
        due_ms=[order[1] for order in found["orders"]],
        latency_ms=[order[3] for order in done],
        cpu_ms=found["usage"]["cpu_ns"] / 1e6 / max(1, len(found["orders"])),
        errors=found["errors"],
    )


def _row(profile: Profile, name: str, load: float, runs: Sequence[_Run]) -> Row:
    route = profile.routes[0].route
    host, limit = _HOSTS[name]
    costs = replace(unserved(costs_of(profile, host, front=False)), releases_per_call=_RELEASES[host])
    set_up = SetUp(host, 1, max(1, profile.cores), limit=limit, costs=costs)
    came, begins_ms = [], 0.0
    for one in runs:
        came += [SentRequest(begins_ms + due_ms, route, None) for due_ms in one.due_ms]
        begins_ms += max(one.due_ms) + 60_000

    @cache
    def replay(cpu: float) -> Replay:
        return replayed(profile, set_up, came, cpu=cpu)

    def again_ms(share: float, cpu: float) -> float:
        return replay(cpu).percentile(route, share).at

    orders = sum(len(one.latency_ms) for one in runs)
    found = Around(
        cpu_ms_per_job=sum(one.cpu_ms for one in runs) / len(runs),
        # Not measured: a worker's processes are gone before they could be told from others'.
        others_cores=0.0, late="", errors_frac=sum(one.errors for one in runs) / max(1, orders),
    )  # fmt: skip
    at = replay(1.0)
    prediction = Prediction(lambda share: at.percentile(route, share), again_ms, at.cpu_ms)
    parts = [np.array([ms for ms in one.latency_ms if ms is not None]) for one in runs]
    key = {
        "system": "pos", "contender": name, "endpoint": route, "utilisation_frac": load,
        "offered_per_s": load * FULL_PER_S, "lost": orders - sum(map(len, parts)),
    }  # fmt: skip
    return row_of(key, parts, prediction, found)


def site_with(plan: Any, file: Path) -> Any:
    """pos's site, with one contender more: the gevent pool under the recorder."""
    from pos.contenders import CONTENDERS as OF_POS
    from pos.contenders import start
    from pos.queueing import QUEUE
    from pos.site import Site

    class Recorded:
        name, slots = RECORDED, OF_POS["gevent-200"].slots

        def command(self, queue: str, folder: Path) -> list[str]:
            greenlane = str(Path(sys.executable).with_name("greenlane"))
            return [greenlane, "record", "-o", str(file.resolve()), "--", *OF_POS["gevent-200"].command(queue, folder)]

    class WithRecorded(Site):
        def start_worker(self, name: str, queue: str = QUEUE, label: str = "") -> Any:
            if name != RECORDED:
                return super().start_worker(name, queue, label)
            worker = start(Recorded(), self.file, self.folder / f"{name}.log", queue)
            self.workers[label or name] = worker
            return worker

    return WithRecorded(plan)


def _ready() -> None:
    if str(_SYSTEM) not in sys.path:
        sys.path.insert(0, str(_SYSTEM))
