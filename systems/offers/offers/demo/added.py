"""What offers wait at pricingservice beyond their own time, at a share of one core.

An offer's own time is what its upstreams take, which follows from its id, and what it takes around them when the
service has nothing else (the median). The rest is added wait: for the CPU, wherever it queues. Riders and light
requests come as their region has them, the same for every contender; what is left of the share is filled with requests
that compute, in the region's proportions, as many as this contender needs: the twin in Go does less around each request
and computes more of them (`computing_per_s` of its row).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greenlane.errors import SettingsError
from greenlane_tools.lab import verdict
from greenlane_tools.lab.demo import Json, percentiles
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.load.generate import Generated, generate
from greenlane_tools.lab.load.schedule import Schedule
from greenlane_tools.lab.processes import core_wait_ns, cpu_ns
from greenlane_tools.lab.run.rows import rotate
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.samples import UNANSWERED, Samples
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.lab.written import written
from greenlane_tools.page.quantities import milliseconds
from offers.load import Load, with_riders
from offers.site import Pricing, Site
from offers.table import Region, Table
from offers.upstreams.server import latency_ms

from .options import ATTEMPTED, Options
from .warm import FROM_S, asked_before

_WARM_S: Final = 4.0
#: How long each load is sent by which it is learned what the mix costs.
_COST_S: Final = 6.0
_ALONE_S: Final = 6.0
#: Kinds that fill the core, and this many times of them while it is learned what they cost.
_COMPUTE: Final = ("mixed", "heavy")
_SOME: Final = 4.0
_FIFTH: Final = 0.2
_RIVAL: Final = "go"
_OURS: Final = "greenlane"
#: What has a latency: an answer, or that it was not there when it was given up.
_TIMED: Final = (200, UNANSWERED)
#: As rows call what is measured.
ENDPOINT: Final = "offers, added wait"


@dataclass(frozen=True)
class Wait:
    """One run.

    Args:
        contender, region: whose and where.
        utilisation_frac: of one core, as it was meant.
        measured_frac: as it was.
        core_wait_frac: how long its threads could have run and others had the cores, of the time.
        scale: of the region's requests that compute.
        computing_per_s: this many of them came.
        seconds: how long.
        added_ms: of each offer that was answered 200, and of each that was given up: it took no less.
        alone_ms: what offers take around their upstreams when the service has nothing else, the median.
        own_ms: the median of an offer's own time.
        errors: offers that were answered something else, or not well.
        lost: offers that were given up.
        warning: of the generator.
    """

    contender: str
    region: str
    utilisation_frac: float
    measured_frac: float
    core_wait_frac: float
    scale: float
    computing_per_s: float
    seconds: float
    added_ms: NDArray[np.float64]
    alone_ms: float
    own_ms: float
    errors: int
    lost: int
    warning: str


def run(options: Options, talk: Talk) -> list[Wait]:
    """Starts everything, measures, ends everything. Blocks."""
    found: list[Wait] = []
    region = options.regions[0]
    with Site(say=talk.progress) as site:
        for repetition in range(options.repetitions):
            for contender in rotate(options.contenders, repetition):
                talk.progress(f"{contender}: starting")
                pricing = site.pricing(contender)
                try:
                    mine = _waits(site, pricing, region, options, f"{options.seed}-{repetition}", talk)
                finally:
                    site.stop(pricing)
                for wait in mine:
                    if wait.warning:
                        talk.say(wait.warning)
                found += mine
                raw = [{**vars(one), "added_ms": np.round(one.added_ms, 3).tolist()} for one in found]
                written(options.out / "run.json", json.dumps(raw))
    return found


def _waits(site: Site, pricing: Pricing, region: str, options: Options, seed: str, talk: Talk) -> list[Wait]:
    place, found = site.table.regions[region], []

    def load(seconds: float, scale: float, part: str) -> Load:
        # Of a short run, which shows that everything works and no figures, every part is as short.
        seconds = min(seconds, options.seconds)
        return with_riders(site.table, filled(place, scale), pricing.address, seconds, f"{seed}-{part}")

    if options.seconds >= FROM_S:
        asked_before(site.table, place, pricing)
    _sent(pricing, load(_WARM_S, 1.0, "warm"))
    alone = offers_only(load(_ALONE_S, 1.0, "alone"))
    around, own = around_ms(site.table, alone, _sent(pricing, alone).found.samples)
    alone_ms = float(np.median(around))
    costs = [load(_COST_S, scale, f"cost-{scale:g}") for scale in (0.0, _SOME)]
    least_frac, some_frac = (_sent(pricing, one).used_frac for one in costs)
    for utilisation_frac in options.utilisations_frac:
        scale = fitting(utilisation_frac, least_frac, some_frac)
        talk.progress(f"{pricing.contender.name} at {utilisation_frac:g} of a core: {options.seconds:g} s")
        asked = load(options.seconds, scale, f"{utilisation_frac:g}")
        sent = _sent(pricing, asked)
        samples = sent.found.samples
        around, own = around_ms(site.table, asked, samples)
        status = samples.status[np.isin(samples.stream, _riders(asked))]
        computing = sum(site.table.endpoints[samples.streams[number]].kind in _COMPUTE for number in samples.stream)
        found.append(Wait(
            pricing.contender.name, region, utilisation_frac, sent.used_frac, sent.core_wait_frac, scale,
            computing / options.seconds, options.seconds, around - alone_ms, alone_ms, float(np.median(own)) + alone_ms,
            len(status) - len(around), int((status == UNANSWERED).sum()), sent.found.warning(),
        ))  # fmt: skip
    return found


def filled(region: Region, scale: float) -> Region:
    """The region with this many times the requests that compute; riders and light requests stay."""
    kinds = {
        name: replace(kind, per_s=scale * kind.per_s) if name in _COMPUTE else kind
        for name, kind in region.kinds.items()
    }
    bursts = tuple(replace(one, every_s=one.every_s / scale) for one in region.bursts) if scale else ()
    return replace(region, kinds=kinds, bursts=bursts)


def fitting(utilisation_frac: float, least_frac: float, some_frac: float) -> float:
    """How many times the region's requests that compute make up this share of a core.

    Args:
        least_frac: the share without them.
        some_frac: the share with `_SOME` times as many.

    Raises:
        SettingsError: riders and light requests alone take more.
    """
    if not least_frac < utilisation_frac:
        rule = f"more than riders and light requests take here ({least_frac:.2f} of a core)"
        raise SettingsError("--utilisations", utilisation_frac, rule, "choose another --region", attempted=ATTEMPTED)
    return _SOME * (utilisation_frac - least_frac) / max(1e-3, some_frac - least_frac)


class _Sent(NamedTuple):
    """The result of a load; by the seconds of its arrivals the CPU that it asked for, and what threads waited for."""

    found: Generated
    used_frac: float
    core_wait_frac: float


def _sent(pricing: Pricing, load: Load) -> _Sent:
    checkpoint()
    pids, whole_ns = pricing.pids(), load.plan.seconds * 1e9
    before_ns, waited_ns = cpu_ns(pids), core_wait_ns(pids)
    found = generate(load.plan, arrivals=load.schedule)
    pricing.check()
    pids = pricing.pids()
    # Threads that have ended take their wait with them.
    waited_ns = max(0, core_wait_ns(pids) - waited_ns)
    return _Sent(found, (cpu_ns(pids) - before_ns) / whole_ns, waited_ns / whole_ns)


def offers_only(load: Load) -> Load:
    """The load without everything that is no rider's offer."""
    mask, schedule = np.isin(load.schedule.stream, _riders(load)), load.schedule
    return Load(load.plan, Schedule(schedule.at_ns[mask], schedule.stream[mask], schedule.work_ms[mask]))


def _riders(load: Load) -> list[int]:
    """Numbers of the streams of riders' offers: those of direct callers carry another number."""
    return [at for at, one in enumerate(load.plan.streams) if one.work is not None and one.work.parameter == "id"]


def around_ms(table: Table, load: Load, samples: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each rider's offer that was answered or given up: its latency beyond what its upstreams take, and what these
    take."""
    around: list[float] = []
    own: list[float] = []
    for number in _riders(load):
        mine = samples.chosen((samples.stream == number) & np.isin(samples.status, _TIMED))
        name = load.plan.streams[number].name
        upstreams_ms = [_upstreams_ms(table, name, repr(float(request_id))) for request_id in mine.work_ms]
        around += (mine.latency_ms() - upstreams_ms).tolist()
        own += upstreams_ms
    return np.array(around), np.array(own)


def _upstreams_ms(table: Table, endpoint: str, request_id: str) -> float:
    calls = table.endpoints[endpoint].calls
    return sum(
        latency_ms(table.upstreams[upstream], f"{request_id}-{number}") for number, upstream in enumerate(calls, 1)
    )


def rows_of(waits: Sequence[Wait]) -> list[Json]:
    """A row a contender and share; repetitions are pooled. Percentiles are of the added wait."""
    cells: dict[tuple[float, str], list[Wait]] = {}
    for one in waits:
        cells.setdefault((one.utilisation_frac, one.contender), []).append(one)
    return [_row(runs) for _, runs in sorted(cells.items())]


def _row(runs: Sequence[Wait]) -> Json:
    first, added = runs[0], np.sort(np.concatenate([run.added_ms for run in runs]))
    seconds = sum(run.seconds for run in runs)
    errors, lost = sum(run.errors for run in runs), sum(run.lost for run in runs)
    return {
        "contender": first.contender, "region": first.region, "endpoint": ENDPOINT, "stage": "added-wait",
        "utilisation_frac": first.utilisation_frac,
        "cpu_utilisation_frac": sum(run.measured_frac for run in runs) / len(runs),
        "core_wait_frac": sum(run.core_wait_frac for run in runs) / len(runs),
        "computing_per_s": sum(run.computing_per_s for run in runs) / len(runs),
        "offered_per_s": (len(added) + errors) / seconds, "done_per_s": (len(added) - lost) / seconds,
        "samples": len(added), **percentiles(added.tolist()),
        "alone_p50_ms": first.own_ms, "errors": errors, "lost": lost,
    }  # fmt: skip


def verdicts_of(waits: Sequence[Wait]) -> list[Verdict]:
    """Ours against the twin in Go at each share; none where one of them did not run."""
    found = []
    for utilisation_frac in dict.fromkeys(one.utilisation_frac for one in waits):
        ours, theirs = ([one for one in waits if one.utilisation_frac == utilisation_frac and one.contender == name]
                        for name in (_OURS, _RIVAL))  # fmt: skip
        if ours and theirs:
            found.append(claimed(utilisation_frac, ours, theirs))
    return found


def claimed(utilisation_frac: float, ours: Sequence[Wait], theirs: Sequence[Wait]) -> Verdict:
    """Added wait at p99: ours ÷ the twin's."""
    used = " and ".join(f"{100 * sum(one.measured_frac for one in runs) / len(runs):.0f} %" for runs in (ours, theirs))
    p99s = " and ".join(_told(_p99_ms(runs)) for runs in (ours, theirs))
    remark = f"{p99s}, measured at {used} of a core"
    text = f"offers' added wait at p99, {utilisation_frac:g} of a core, {_OURS} ÷ {_RIVAL}"
    return Verdict(text, *verdict.ratio(ours, theirs, _p99_ms), "<=", _FIFTH, remark)


def _told(ms: float) -> str:
    return milliseconds(ms) if math.isfinite(ms) else "never"


def _p99_ms(runs: Sequence[Wait]) -> float:
    """Of all offers: one that failed was never there."""
    never = np.full(sum(run.errors for run in runs), np.inf)
    return quantile(np.sort(np.concatenate([never, *(run.added_ms for run in runs)])), 0.99)
