"""What is measured, in which order: contenders take turns, so that none has the machine's better hour."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from greenlane_tools.lab.run.rows import rotate
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.written import written
from pos.contenders import CONTENDERS
from pos.demo.options import course
from pos.site import Plan, Site

from . import article
from .options import Options
from .stages import offered, saturated, slow

Json = dict[str, Any]
#: What a call takes at a merchant that is well.
WELL_MS: Final = 300.0
WORK_MS: Final = 3.0


@dataclass(frozen=True)
class Result:
    """All that was measured.

    Args:
        runs: stage -> contender -> its repetitions, raw.
        merchants: how many took part.
    """

    runs: dict[str, dict[str, list[Json]]]
    merchants: int


def run(options: Options, talk: Talk) -> Result:
    """Starts everything, measures, ends everything. Raw runs are written as soon as they are there."""
    is_article = options.preset == "doordash"
    call_ms, work_ms = (article.CALL_MS, article.WORK_MS) if is_article else (WELL_MS, WORK_MS)
    talk.say(f"about {max(1, round(minutes(options)))} min; starting RabbitMQ and ten merchants …")
    runs: dict[str, dict[str, list[Json]]] = {stage: {} for stage in options.stages}
    plan = Plan(
        law={"median_ms": call_ms, "p99_ms": call_ms}, work_ms=work_ms, calls=options.calls, queue_kind=options.queues
    )
    with Site(plan) as site:
        for repetition in range(options.repetitions):
            for stage in options.stages:
                for name in rotate(options.contenders, repetition):
                    found = _one(site, options, stage, name, f"{stage}-{name}-{repetition}", talk)
                    runs[stage].setdefault(name, []).append(found)
                    _keep(options.out, runs)
                    talk.say(f"{stage}, {name}: {_said(found)}")
        merchants = len(site.around.merchants)
    return Result(runs, merchants)


def _one(site: Site, options: Options, stage: str, name: str, prefix: str, talk: Talk) -> Json:
    seconds = options.seconds_of(stage)
    if stage == "slow-merchant":

        def set_slow(merchant: str, is_slow: bool) -> None:
            site.set_law(merchant, median_ms=options.slow_s * 1e3 if is_slow else WELL_MS)

        way = course(options.trouble)
        return slow(site, name, prefix, options.per_s, seconds, talk, way=way, set_slow=set_slow)
    if stage == "capacity":
        return saturated(site, name, prefix, WELL_MS / 1e3, seconds, talk)
    call_s = article.CALL_MS / 1e3
    if stage == "saturated":
        return saturated(site, name, prefix, call_s, seconds, talk)
    return offered(site, name, prefix, article.offered_per_s(name), call_s, seconds, talk)


def minutes(options: Options) -> float:
    """How long it takes on an idle machine."""
    beside_s = {"slow-merchant": 12.0, "capacity": 14.0, "saturated": 18.0, "offered": 24.0}
    each_s = sum(options.seconds_of(stage) + beside_s[stage] for stage in options.stages)
    return each_s * len(options.contenders) * options.repetitions / 60 + 0.2


def _said(found: Json) -> str:
    if "orders" in found:
        well = [done for merchant, _, _, done in found["orders"] if merchant not in found["troubled"]]
        return f"{sum(done is not None for done in well)} of {len(well)} orders of the other merchants done"
    return f"{len(found['done_ms'])} orders in {found['usage']['wall_ns'] / 1e9:.1f} s"


def _keep(folder: Path, runs: dict[str, dict[str, list[Json]]]) -> None:
    written(folder / "run.json", json.dumps(runs))


def slots(name: str) -> int:
    """Orders that a contender can be at work on at once."""
    return CONTENDERS[name].slots
