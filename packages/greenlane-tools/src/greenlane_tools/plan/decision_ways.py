"""Five ways to have work done that computes beside an event loop, and what each would be like: means, by formulas.

The latency on a loop: R = C + S + v W, with W = λ E[Σ b²]/(2 (1 - ρ)) for each of v visits with bursts b: M/G/1
(Pollaczek and Khinchine) for every visit as if visits came at random. Above a loop's mean by some 5 % at ρ of 0.3, 15 %
at 0.6, 40 % at 0.8; bursts of arrivals are not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.plan.amount import spelt
from greenlane_tools.plan.costs import ARENA, JSON, NATIVE, POOL, POOL_BUFFERS, Transport
from greenlane_tools.plan.slots import waits_frac

__all__ = ["LINK_FRAC", "Case", "Way", "gbit_per_s", "ways"]

#: Native work up to this long may stay on the loop: nobody notices it there, and a way to another thread costs more.
_INLINE_MS: Final = 2.0
#: To a thread beside the loop and back.
_THREAD_MS: Final = 0.03
#: A link is full before its last bit: above this share packets are lost in bursts.
LINK_FRAC: Final = 0.7


@dataclass(frozen=True, slots=True)
class Case:
    """A service whose requests compute and wait.

    Args:
        rate_per_s: of requests, all machines together.
        cpu_ms: of a request on its loop, all of it.
        heavy_ms: of that, the part that could go elsewhere: features and a model, an image, a report.
        io_ms: of a request until replies are there, calls that run at the same time counted once.
        io_groups: how often it waits: each time it comes back it needs the loop.
        moved_mb: that the heavy part needs, as JSON.
        result_mb: that it gives.
        machines: that share the rate.
        processes: loops on each of them.
        cores: of each of them.
        workers: processes of a pool for each loop.
        objects: whether what moves are Python objects (dicts, lists), or buffers (bytes, arrays).
        cv2: variance of a burst over its mean's square.
        link_gbit_per_s: of a machine.
        round_trip_ms: to another machine.
        native: how many times less CPU the heavy part takes in native code.
        encoding: of a service of its own.
        cap_ms: mean latency that must be kept; None = the least that can be had.
    """

    rate_per_s: float
    cpu_ms: float
    heavy_ms: float
    io_ms: float
    io_groups: int = 1
    moved_mb: float = 0.0
    result_mb: float = 0.0
    machines: int = 1
    processes: int = 1
    cores: int = 4
    workers: int = 3
    objects: bool = True
    cv2: float = 0.5
    link_gbit_per_s: float = 10.0
    round_trip_ms: float = 0.5
    native: float = NATIVE.value
    encoding: Transport = JSON
    cap_ms: float | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be: PlanError that names the field."""
        for name in ("rate_per_s", "link_gbit_per_s", "native"):
            _check(name, getattr(self, name), getattr(self, name) > 0, "a finite number above 0")
        for name in ("cpu_ms", "heavy_ms", "io_ms", "moved_mb", "result_mb", "cv2", "round_trip_ms"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "a finite number of at least 0")
        for name in ("machines", "processes", "cores", "workers"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "a whole number of at least 1")
        _check("io_groups", self.io_groups, self.io_groups >= 0, "a whole number of at least 0")
        _check("heavy_ms", self.heavy_ms, self.heavy_ms <= self.cpu_ms, f"a part of cpu_ms={self.cpu_ms:g}")
        if self.cap_ms is not None:
            _check("cap_ms", self.cap_ms, self.cap_ms > 0, "a finite number above 0")

    @property
    def light_ms(self) -> float:
        """CPU that stays on the loop whatever is done."""
        return self.cpu_ms - self.heavy_ms

    @property
    def loop_per_s(self) -> float:
        """Requests of one loop."""
        return self.rate_per_s / (self.machines * self.processes)


@dataclass(frozen=True, slots=True)
class Way:
    """One way, and what it would be like.

    Args:
        name: stay, pool, shared memory, native, split.
        words: what it is.
        latency_ms: mean, from arrival; inf where it cannot work.
        loop_busy_frac: share of its time in which a loop works.
        cpu_ms: of a request, all processes together.
        cores: busy of a machine, of those that it has.
        moving_ms: of the CPU, what goes for moving data to the work and back.
        gbit_per_s: over the network for it, all machines together.
        why_not: what makes it impossible; "" = it can be done.
        rests_on: where its figures come from.
    """

    name: str
    words: str
    latency_ms: float
    loop_busy_frac: float
    cpu_ms: float
    cores: float
    moving_ms: float
    gbit_per_s: float
    why_not: str
    rests_on: str

    def said(self) -> str:
        """One line."""
        if self.why_not:
            return f"{self.name}: cannot be done here: {self.why_not}."
        moved = f", {spelt(self.moving_ms, 'ms')} of it for moving data" if self.moving_ms else ""
        sent = f", {spelt(self.gbit_per_s, 'gbit_per_s')} over the network" if self.gbit_per_s else ""
        return (
            f"{self.name}: {spelt(self.latency_ms, 'ms')} in the mean, {spelt(self.cpu_ms, 'ms')} of CPU a request"
            f"{moved}{sent}; a loop works {self.loop_busy_frac:.0%} of the time."
        )


def ways(case: Case) -> tuple[Way, ...]:
    """All of them, the least change first. Cost: about 1 ms."""
    return _stay(case), _pool(case), _shared(case), _native(case), _split(case)


@dataclass(frozen=True, slots=True)
class _Work:
    """A way, in what it does: bursts on the loop, and what goes on elsewhere meanwhile."""

    name: str
    words: str
    rests_on: str
    #: On the loop, in order; between two of them the request waits for something.
    bursts_ms: tuple[float, ...]
    #: By one of `workers` elsewhere; 0 workers = nothing is.
    away_ms: float = 0.0
    workers: int = 0
    #: Neither loop nor worker: a network, a doorbell.
    beside_ms: float = 0.0
    moving_ms: float = 0.0
    #: MB over the network.
    sent_mb: float = 0.0
    #: Whether `workers` are on the same machine.
    here: bool = True


def _stay(case: Case) -> Way:
    bursts = _light(case)
    work = _Work(
        "stay", "everything on the loop, as it is", "your own numbers", (*bursts[:-1], bursts[-1] + case.heavy_ms)
    )
    return _option(case, work)


def _pool(case: Case) -> Way:
    by = POOL if case.objects else POOL_BUFFERS
    words = f"a ProcessPoolExecutor with {case.workers} workers for each loop; what moves is pickled"
    return _option(case, _moved(case, "pool", words, by))


def _shared(case: Case) -> Way:
    words = "worker processes with shared memory (greenlane.placed): bytes as they were stored, arrays back"
    return _option(case, _moved(case, "shared memory", words, ARENA))


def _native(case: Case) -> Way:
    heavy_ms = case.heavy_ms / case.native
    source = NATIVE.source if case.native == NATIVE.value else "your own factor"
    rests_on = f"{case.native:.3g} times less CPU for the heavy part: {source}"
    words = "the heavy part in native code that releases the GIL, in the same process"
    bursts = _light(case)
    if heavy_ms <= _INLINE_MS:
        return _option(case, _Work("native", words, rests_on, (*bursts[:-1], bursts[-1] + heavy_ms)))
    spare = max(1, case.cores // case.processes - 1)
    return _option(case, _Work("native", words, rests_on, (*bursts, 0.0), heavy_ms, spare, beside_ms=_THREAD_MS))


def _split(case: Case) -> Way:
    work = _moved(case, "split", f"a service of its own; what moves goes as {case.encoding.name}", case.encoding)
    sent_mb = case.moved_mb + case.result_mb
    link_busy = gbit_per_s(case.rate_per_s / case.machines, sent_mb) / case.link_gbit_per_s
    on_wire_ms = sent_mb * 8 / case.link_gbit_per_s / (1 - link_busy) if link_busy < 1 else math.inf
    work = replace(work, sent_mb=sent_mb, here=False, beside_ms=work.beside_ms + case.round_trip_ms + on_wire_ms)
    return _option(case, work)


def _moved(case: Case, name: str, words: str, by: Transport) -> _Work:
    """The heavy part elsewhere: its input leaves the loop in one burst, its result comes back in another."""
    out_ms, back_ms = by.here_ms(case.moved_mb, case.result_mb)
    there_ms = by.there_ms(case.moved_mb, case.result_mb)
    *bursts, last = _light(case)
    return _Work(
        name, words, by.source, (*bursts, last + out_ms, back_ms), case.heavy_ms + there_ms, case.workers,
        beside_ms=by.fixed_ms, moving_ms=out_ms + back_ms + there_ms,
    )  # fmt: skip


def _light(case: Case) -> tuple[float, ...]:
    """What stays on the loop, the same between any two of its waits."""
    visits = case.io_groups + 1
    return (case.light_ms / visits,) * visits


def _option(case: Case, work: _Work) -> Way:
    per_ms = case.loop_per_s / 1000
    loop_ms = math.fsum(work.bursts_ms)
    busy = per_ms * loop_ms
    square = math.fsum(each * each for each in work.bursts_ms) * (1 + case.cv2)
    wait_ms = per_ms * square / (2 * (1 - busy)) if busy < 1 else math.inf
    visits = len(work.bursts_ms)
    away_ms, away_busy = _away(case, work)
    latency_ms = loop_ms + case.io_ms + visits * wait_ms + away_ms + work.beside_ms
    cpu_ms = loop_ms + work.away_ms
    cores = case.processes * per_ms * (cpu_ms if work.here else loop_ms)
    sent = gbit_per_s(case.rate_per_s, work.sent_mb)
    why_not = _why_not(case, busy, away_busy, cores, sent)
    if why_not:
        latency_ms = math.inf
    return Way(work.name, work.words, latency_ms, busy, cpu_ms, cores, work.moving_ms, sent, why_not, work.rests_on)


def _away(case: Case, work: _Work) -> tuple[float, float]:
    """Wait and work elsewhere, ms, and how busy those are who do it."""
    if not work.workers or not work.away_ms:
        return 0.0, 0.0
    offered = case.loop_per_s * work.away_ms / 1000
    spare = work.workers - offered
    wait_ms = waits_frac(offered, work.workers) * work.away_ms / spare if spare > 0 else math.inf
    return wait_ms * (1 + case.cv2) / 2 + work.away_ms, offered / work.workers


def gbit_per_s(rate_per_s: float, megabytes: float) -> float:
    """What must go over a network: requests a second times MB (1e6 bytes) each."""
    return rate_per_s * megabytes * 8 / 1000


def _why_not(case: Case, busy: float, away_busy: float, cores: float, gbit: float) -> str:
    link = case.link_gbit_per_s * case.machines * LINK_FRAC
    if busy >= 1:
        return f"the loop alone would have to work {busy:.0%} of the time"
    if away_busy >= 1:
        return f"those who do the heavy part would have to work {away_busy:.0%} of the time"
    if cores > case.cores:
        return f"it needs {cores:.1f} cores of {case.cores}"
    if gbit > link:
        return f"{spelt(gbit, 'gbit_per_s')} do not go through {case.machines} x {case.link_gbit_per_s:g} Gbit/s"
    return ""


def _check(name: str, value: float, holds: bool, rule: str) -> None:
    if not (holds and math.isfinite(value)):
        raise PlanError("decide where work runs", name=name, value=value, rule=rule)
