"""How often `greenlane lab compare` is right: `python -m bench.compare_coverage [--trials 400]`.

Question: does a 95 % interval hold the true ratio in 95 of 100 comparisons, and how seldom is a difference seen where
there is none, when runs differ from each other as they do? Expected: 93 to 98 % held, at most 7 % false alarms for one
comparison and at most 5 % for all of a study together, more than 80 % of 16 % effects on p50 seen in 5 paired
repetitions. Beside it the interval that is usually taken: percentiles of a two-level bootstrap (repetitions, then
samples within each).

Latencies are lognormal (sigma 0.5); each repetition is shifted by a factor that both sides share (5 %) and by one of
its own (3 %). Seeded: it prints the same each time. It does not show what happens when runs are alike in ways that are
no chance, such as one contender always going first.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.compare.study import study_of
from greenlane_tools.lab.compare.subject import Run, Subject
from greenlane_tools.lab.compare.verdicts import Word
from greenlane_tools.lab.differences import Scale, Side, difference
from greenlane_tools.lab.resampling import Pool, Quantile, drawn_weights
from greenlane_tools.lab.samples import Samples

SHARED, OWN, SPREAD = 0.05, 0.03, 0.5
RESAMPLES = 400
Blocks = list[NDArray[np.float64]]


class Tally(NamedTuple):
    """Shares of trials."""

    held: float
    seen: float
    usual_held: float


def blocks(source: np.random.Generator, drift: NDArray[np.float64], samples: int, effect: float = 0.0) -> Blocks:
    """One side's repetitions."""
    return [np.exp(source.normal(0, SPREAD, samples) + d + source.normal(0, OWN) + effect) for d in drift]


def tally(count: int, samples: int, share: float, effect: float, trials: int, *, paired: bool) -> Tally:
    """Many comparisons of the same two behaviours."""
    source = np.random.default_rng([count, samples, round(share * 1000), round(effect * 1000), paired])
    held = seen = usual = 0
    for _ in range(trials):
        drift = source.normal(0, SHARED, count)
        a = blocks(source, drift, samples)
        b = blocks(source, drift if paired else source.normal(0, SHARED, count), samples, effect)
        weights = drawn_weights(count, RESAMPLES, 1), drawn_weights(count, RESAMPLES, 1 if paired else 2)
        pools = Pool(a), Pool(b)
        at = [Quantile(share)(pool.values) for pool in pools]
        draws = [pool.quantiles(share, drawn) for pool, drawn in zip(pools, weights, strict=True)]
        sides = [Side(value, drawn, count) for value, drawn in zip(at, draws, strict=True)]
        found = difference(*sides, paired=paired, scale=Scale.RATIO)
        assert found.ratio is not None
        held += found.ratio.low <= math.exp(effect) <= found.ratio.high
        seen += found.p_value <= 0.05
        low, high = np.quantile(two_level(source, a, b, share, paired=paired), [0.025, 0.975])
        usual += low <= math.exp(effect) <= high
    return Tally(held / trials, seen / trials, usual / trials)


def two_level(source: np.random.Generator, a: Blocks, b: Blocks, share: float, *, paired: bool) -> list[float]:
    """Ratios of a bootstrap of repetitions and of samples within each."""
    found = []
    for _ in range(200):
        first = source.integers(0, len(a), len(a))
        second = first if paired else source.integers(0, len(b), len(b))
        values = [
            Quantile(share)(
                np.concatenate([side[at][source.integers(0, len(side[at]), len(side[at]))] for at in chosen])
            )
            for side, chosen in ((a, first), (b, second))
        ]
        found.append(values[1] / values[0])
    return found


def false_studies(trials: int) -> tuple[float, int]:
    """Share of whole studies of two alike contenders that call anything better or worse; comparisons in each."""
    source = np.random.default_rng(5)
    alarms = size = 0
    for _ in range(trials):
        drift = source.normal(0, SHARED, 5)
        sides = [
            Subject(name, "one", [run(source, shift, number) for number, shift in enumerate(drift)]) for name in "ab"
        ]
        found = study_of(sides, deadline_ms=150.0)
        alarms += any(each.verdict.word is not Word.SAME for each in found.comparisons)
        size = len(found.comparisons)
    return alarms / trials, size


def run(source: np.random.Generator, drift: float, number: int, size: int = 1_200) -> Run:
    """One repetition of three endpoints around 50 ms."""
    due = np.arange(size) * 10_000_000
    latency = 50e6 * np.exp(source.normal(0, SPREAD, size) + drift + source.normal(0, OWN))
    done = due + latency.astype(np.int64)
    ok, zero = np.full(size, 200, np.int16), np.zeros(size)
    stream = (np.arange(size) % 3).astype(np.uint16)
    samples = Samples(("x", "y", "z"), stream, due, due + 1, done, done, ok, zero.astype(np.int32), zero)
    return Run({"repetition": number}, samples)


def main() -> int:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    trials = parser.parse_args().trials
    print("repetitions  pairs  what  true effect  interval holds it  difference seen  two-level percentiles hold it")
    for count in (3, 5, 10):
        for paired in (True, False):
            for share, effect in ((0.5, 0.0), (0.5, 0.15), (0.99, 0.0), (0.99, 0.15)):
                found = tally(count, 400, share, effect, trials, paired=paired)
                print(
                    f"{count:<13}{'yes' if paired else 'no':<7}p{share * 100:<5g}{math.expm1(effect):<+13.0%}"
                    f"{found.held:<19.1%}{found.seen:<17.1%}{found.usual_held:.1%}",
                    flush=True,
                )
    alarms, size = false_studies(trials)
    print(
        f"two alike contenders, 5 paired repetitions, {size} comparisons: anything called in {alarms:.1%} of {trials}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
