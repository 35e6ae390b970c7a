"""Better, worse, or the same; why; and how many repetitions it would take to tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from greenlane_tools.lab.differences import Difference, Scale, needed
from greenlane_tools.lab.statistics import enough

__all__ = [
    "ALPHA",
    "CPU",
    "FAILED",
    "PERCENTILES",
    "Quantity",
    "SMALLEST_FRAC",
    "SMALLEST_SHARE",
    "THROUGHPUT",
    "Verdict",
    "WITHIN_DEADLINE",
    "Word",
    "verdict_of",
]


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
