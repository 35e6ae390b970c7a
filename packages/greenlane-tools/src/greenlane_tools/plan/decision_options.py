"""Five ways to have work done that computes beside an event loop, and what each would be like: means, by formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from greenlane_tools.plan import formulas
from greenlane_tools.plan.answer import Answer, Given, spelt
from greenlane_tools.plan.costs import ARENA, NATIVE, POOL, POOL_BUFFERS, Transport
from greenlane_tools.plan.decision_case import Case, gbit_per_s
from greenlane_tools.plan.waiting import Waiting

__all__ = ["LINK_FRAC", "Option", "options"]

#: Native work up to this long may stay on the loop: nobody notices it there, and a way to another thread costs more.
_INLINE_MS: Final = 2.0
#: To a thread beside the loop and back.
_THREAD_MS: Final = 0.03
#: A link is full before its last bit: above this share packets are lost in bursts.
LINK_FRAC: Final = 0.7


@dataclass(frozen=True, slots=True)
class Option:
    """One way, and what it would be like.

    Args:
        name: stay, pool, shared memory, native, split.
        words: what it is.
        latency: mean, from arrival; inf where it cannot work.
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
    latency: Answer
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
            f"{self.name}: {spelt(self.latency.value, 'ms')} in the mean, {spelt(self.cpu_ms, 'ms')} of CPU a request"
            f"{moved}{sent}; a loop works {self.loop_busy_frac:.0%} of the time."
        )


def options(case: Case) -> tuple[Option, ...]:
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


def _stay(case: Case) -> Option:
    bursts = _light(case)
    work = _Work(
        "stay", "everything on the loop, as it is", "your own numbers", (*bursts[:-1], bursts[-1] + case.heavy_ms)
    )
    return _option(case, work)


def _pool(case: Case) -> Option:
    by = POOL if case.objects else POOL_BUFFERS
    words = f"a ProcessPoolExecutor with {case.workers} workers for each loop; what moves is pickled"
    return _option(case, _moved(case, "pool", words, by))


def _shared(case: Case) -> Option:
    words = "worker processes with shared memory (greenlane.placed): bytes as they were stored, arrays back"
    return _option(case, _moved(case, "shared memory", words, ARENA))


def _native(case: Case) -> Option:
    heavy_ms = case.heavy_ms / case.native
    source = NATIVE.source if case.native == NATIVE.value else "your own factor"
    rests_on = f"{case.native:.3g} times less CPU for the heavy part: {source}"
    words = "the heavy part in native code that releases the GIL, in the same process"
    bursts = _light(case)
    if heavy_ms <= _INLINE_MS:
        return _option(case, _Work("native", words, rests_on, (*bursts[:-1], bursts[-1] + heavy_ms)))
    spare = max(1, case.cores // case.processes - 1)
    return _option(case, _Work("native", words, rests_on, (*bursts, 0.0), heavy_ms, spare, beside_ms=_THREAD_MS))


def _split(case: Case) -> Option:
    work = _moved(case, "split", f"a service of its own; what moves goes as {case.encoding.name}", case.encoding)
    sent_mb = case.moved_mb + case.result_mb
    link_busy = gbit_per_s(case.rate_per_s / case.machines, sent_mb).value / case.link_gbit_per_s
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


def _option(case: Case, work: _Work) -> Option:
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
    why_not = _why_not(case, busy, away_busy, cores, sent.value)
    given = (
        Given("λ", case.loop_per_s, "per_s"),
        Given("C", loop_ms, "ms"),
        Given("S", case.io_ms + away_ms + work.beside_ms, "ms"),
        Given("v", visits),
        Given("W", wait_ms, "ms"),
        Given("ρ", busy, "frac"),
    )
    latency = Answer(math.inf if why_not else latency_ms, "ms", formulas.LOOP, given)
    return Option(
        work.name, work.words, latency, busy, cpu_ms, cores, work.moving_ms, sent.value, why_not, work.rests_on
    )


def _away(case: Case, work: _Work) -> tuple[float, float]:
    """Wait and work elsewhere, ms, and how busy those are who do it."""
    if not work.workers or not work.away_ms:
        return 0.0, 0.0
    queue = Waiting.exponential(case.loop_per_s, work.away_ms, work.workers)
    return queue.wait_ms().value * (1 + case.cv2) / 2 + work.away_ms, queue.busy().value


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
