"""Better, worse, or the same; why; and how many repetitions it would take to tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.compare.sources import Cell, Run, said
from greenlane_tools.lab.differences import Difference, Scale, Side, needed
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.statistics import Pool, Weights, enough, of_sums, quantile

# --- One side's samples of an endpoint by repetition, as the statistics need them.


Floats = NDArray[np.float64]

#: A single run is cut into this many stretches of time, each taken for a repetition ("batch means": B. Schmeiser,
#: Operations Research 30, 1982, finds 10 to 30 enough). How runs differ from each other they cannot say.
BATCHES: Final = 10
#: An answer up to this long after the load's end still counts as done at its rate.
_GRACE_S: Final = 1.0


@dataclass(frozen=True)
class Repetitions:
    """An endpoint on one side."""

    # Of one endpoint; one a repetition, or a stretch of a single run.
    parts: Sequence[Samples]
    # Load of each, in s.
    seconds: Sequence[float]
    # Until when an answer to each counts as done at its rate, in ns of its samples.
    until_ns: Sequence[float]
    # Its deadline; None = none is known.
    deadline_ms: float | None
    # They are stretches of one run.
    single: bool
    # Their numbers; of a single run's stretches none.
    numbers: Sequence[int] = ()
    # CPU of each; () = not known, or the endpoint is one of several.
    cpu_ms: Sequence[float] = ()

    @cached_property
    def latencies_ms(self) -> list[Floats]:
        """Of each repetition, ascending: what percentiles are taken of."""
        return [part.answered() for part in self.parts]

    @cached_property
    def ordered_ms(self) -> Floats:
        """All of them, ascending."""
        return np.sort(np.concatenate(self.latencies_ms)) if self.parts else np.empty(0)

    @cached_property
    def pool(self) -> Pool:
        """For percentiles under weights; not of no latencies."""
        return Pool(self.latencies_ms)

    @property
    def offered(self) -> int:
        """Requests."""
        return sum(map(len, self.parts))

    @property
    def failed(self) -> int:
        """Requests without an answer of status 2xx."""
        return sum(int((~_good(part)).sum()) for part in self.parts)

    def chosen(self, numbers: Sequence[int]) -> Repetitions:
        """Those repetitions alone."""
        places = [self.numbers.index(number) for number in numbers]
        parts, seconds = [self.parts[place] for place in places], [self.seconds[place] for place in places]
        until_ns = [self.until_ns[place] for place in places]
        cpu_ms = [self.cpu_ms[place] for place in places] if self.cpu_ms else ()
        return Repetitions(parts, seconds, until_ns, self.deadline_ms, self.single, numbers, cpu_ms)

    def side(self, quantity: Quantity, weights: Weights) -> Side | None:
        """A quantity and its draws; None = too few samples, or nothing that it could be computed of."""
        if len(self.parts) < 2 or self.offered < quantity.least_samples:
            return None
        if quantity.share:
            if len(self.ordered_ms) < quantity.least_samples:
                return None
            at, draws = quantile(self.ordered_ms, quantity.share), self.pool.quantiles(quantity.share, weights)
            return Side(at, draws, len(self.parts))
        if (quantity is WITHIN_DEADLINE and self.deadline_ms is None) or (quantity is CPU and not self.cpu_ms):
            return None
        above, below = self._sums(quantity)
        at = float(above.sum() / below.sum()) if below.sum() else 0.0
        return Side(at, of_sums(above, below, weights), len(self.parts))

    def _sums(self, quantity: Quantity) -> tuple[Floats, Floats]:
        if quantity is THROUGHPUT:
            pairs = zip(self.parts, self.until_ns, strict=True)
            done = [int((_good(part) & (part.done_ns <= until_ns)).sum()) for part, until_ns in pairs]
            return np.array(done, float), np.array(self.seconds, float)
        if quantity is CPU:
            return np.array(self.cpu_ms, float), _counted(self.parts, _good)
        hit = {FAILED: lambda part: ~_good(part), WITHIN_DEADLINE: self._within}[quantity]
        return _counted(self.parts, hit), np.array([len(part) for part in self.parts], float)

    def _within(self, part: Samples) -> NDArray[np.bool_]:
        result: NDArray[np.bool_] = _good(part) & (part.latency_ms() <= (self.deadline_ms or 0.0))
        return result


def repetitions_of(runs: Sequence[Run], endpoint: str, deadline_ms: float | None) -> Repetitions:
    """The endpoint's samples in these runs of one cell; a single run is cut into stretches."""
    runs = [run for run in runs if endpoint in run.samples.streams and len(run.samples.of(endpoint))]
    parts = [run.samples.of(endpoint) for run in runs]
    # The load lasts as long for each endpoint of a run.
    seconds = [_seconds(run) for run in runs]
    until_ns = [(each + _GRACE_S) * 1e9 for each in seconds]
    if len(parts) != 1:
        numbers = [run.repetition for run in runs]
        return Repetitions(parts, seconds, until_ns, deadline_ms, single=False, numbers=numbers)
    cut = [part for part in _stretches(parts[0], seconds[0]) if len(part)]
    return Repetitions(cut, [seconds[0] / BATCHES] * len(cut), until_ns * len(cut), deadline_ms, single=True)


def all_of(runs: Sequence[Run]) -> Repetitions | None:
    """All endpoints together, for what is measured of them together; None = nothing was, or of a single run."""
    cpu_ms = [run.cpu_ms for run in runs if run.cpu_ms is not None]
    if len(cpu_ms) < max(2, len(runs)):
        return None
    seconds = [_seconds(run) for run in runs]
    until_ns = [(each + _GRACE_S) * 1e9 for each in seconds]
    numbers = [run.repetition for run in runs]
    return Repetitions([run.samples for run in runs], seconds, until_ns, None, False, numbers, cpu_ms)


def _seconds(run: Run) -> float:
    return run.seconds or max(1e-9, float(run.samples.scheduled_ns.max(initial=0)) / 1e9)


def _stretches(samples: Samples, seconds: float) -> list[Samples]:
    which = np.minimum(BATCHES - 1, samples.scheduled_ns * BATCHES // max(1, round(seconds * 1e9)))
    return [samples.chosen(which == number) for number in range(BATCHES)]


def _counted(parts: Sequence[Samples], hit: Callable[[Samples], NDArray[np.bool_]]) -> Floats:
    return np.array([int(hit(part).sum()) for part in parts], float)


def _good(samples: Samples) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = (samples.status >= 200) & (samples.status < 300)
    return result


# --- An endpoint of a cell, and what each side did there.


@dataclass(frozen=True)
class Place:
    """An endpoint of a cell, and what each side did there, by its name; A first."""

    cell: Cell
    endpoint: str
    sides: Mapping[str, Repetitions]
    # All endpoints together: of that mixture percentiles mean nothing.
    mixture: bool = False

    @property
    def name(self) -> str:
        """In words."""
        return " · ".join(filter(None, (said(self.cell), "all endpoints" if self.mixture else self.endpoint)))


#: A difference counts when chance alone makes one as large in fewer cases, all comparisons taken together.
ALPHA: Final = 0.05
#: Ratios nearer to 1 are the same. Arbitrary: what nobody would change a server for.
SMALLEST_FRAC: Final = 0.05
_MOST: Final = 1_000


class Word(Enum):
    """What B is, seen from A."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"


@dataclass(frozen=True)
class Verdict:
    """The word and its reason."""

    word: Word
    # "" = the word says it.
    because: str = ""
    # Nothing is known: neither that they differ, nor that they do not.
    open: bool = False
    # Repetitions of each side after which it could be told; 0 = it can be told, or repetitions alone do not help.
    needed: int = 0


def verdict_of(
    quantity: Quantity, found: Difference, p_adjusted: float, tests: int, repetitions: int, *,
    paired: bool, single: bool, smallest_frac: float = SMALLEST_FRAC,
) -> Verdict:  # fmt: skip
    """The verdict.

    Args:
        p_adjusted: corrected for `tests` comparisons.
        repetitions: of the side that has fewer.
        single: a side has one run alone.
        smallest_frac: effects below it are the same; shares have a limit of their own.
    """
    ratio = quantity.scale is Scale.RATIO and found.ratio is not None
    smallest = math.log1p(smallest_frac) if ratio else SMALLEST_SHARE
    effect, low, high = _effect(found, ratio=ratio)
    said = f"{smallest_frac * 100:g} %" if ratio else f"{SMALLEST_SHARE * 100:g} % of all requests"
    if p_adjusted <= ALPHA:
        if abs(effect) < smallest:
            return Verdict(Word.SAME, f"differs by less than {said}")
        better = (effect < 0) == quantity.lower_is_better
        return Verdict(Word.BETTER if better else Word.WORSE, "one run alone" if single else "")
    if -smallest <= low and high <= smallest:
        return Verdict(Word.SAME, f"within {said}")
    if single:
        return Verdict(Word.SAME, "cannot tell: one run alone; repeat it", open=True)
    number = needed(found.error, repetitions, max(abs(effect), smallest), tests, paired=paired)
    about = f"over {_MOST:,}" if number >= _MOST else f"about {number}"
    return Verdict(Word.SAME, f"cannot tell: {about} repetitions would be needed", open=True, needed=number)


def _effect(found: Difference, *, ratio: bool) -> tuple[float, float, float]:
    if not ratio or found.ratio is None:
        return found.difference.at, found.difference.low, found.difference.high
    return math.log(found.ratio.at), math.log(found.ratio.low), math.log(found.ratio.high)


# --- What is compared of an endpoint: percentiles, shares, throughput, and which way is better.

#: Shares that differ by less are the same.
SMALLEST_SHARE: Final = 0.01


@dataclass(frozen=True)
class Quantity:
    """One number of an endpoint."""

    # Its field in rows.
    name: str
    # In tables.
    title: str
    scale: Scale
    lower_is_better: bool
    # Of a percentile its share; 0 = it is none.
    share: float = 0.0
    # Samples that each side must have.
    least_samples: int = 20


def _percentile(share: float, title: str, least_samples: int) -> Quantity:
    return Quantity(f"{title.replace('.', '')}_ms", title, Scale.RATIO, True, share, least_samples)


#: Of p50 and p99.9 more than the rule asks for: a repetition has a part of them.
PERCENTILES: Final = (
    _percentile(0.5, "p50", 20), _percentile(0.95, "p95", enough(0.95)), _percentile(0.99, "p99", enough(0.99)),
    _percentile(0.999, "p99.9", 10_000),
)  # fmt: skip
WITHIN_DEADLINE: Final = Quantity("within_deadline_frac", "within deadline", Scale.DIFFERENCE, lower_is_better=False)
FAILED: Final = Quantity("failed_frac", "failed", Scale.DIFFERENCE, lower_is_better=True)
THROUGHPUT: Final = Quantity("done_per_s", "done/s", Scale.RATIO, lower_is_better=False)
#: Of all endpoints together, of the contender's processes.
CPU: Final = Quantity("cpu_ms_per_job", "CPU per job", Scale.RATIO, lower_is_better=True)
