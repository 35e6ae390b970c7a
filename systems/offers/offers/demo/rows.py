"""One row a cell: a contender in a region; below it one for each kind of its other requests."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from operator import add
from typing import Any, Final

import numpy as np

from greenlane_tools.lab.demo import MOST_EXACT, Json
from greenlane_tools.lab.environment import usable_cores
from greenlane_tools.lab.samples import UNANSWERED
from greenlane_tools.lab.statistics import bootstrap, quantile, wilson
from offers.contenders import FIXES
from offers.load import OFFERS
from offers.site import CAP_MS

from .counts import Counts
from .riders import changes_per_minute
from .turn import Turn

__all__ = ["BIKES", "nines", "rows_of", "success"]

#: Modes whose price pricingservice makes.
BIKES: Final = tuple(name.removesuffix("_price") for name in OFFERS)
#: Misses come in groups: neighbouring polls share a fate, windows of this length do not.
_WINDOW_S: Final = 5.0
#: At zero failures of n the share of failures is below 3 / n (95 %, one-sided).
_NONE_SEEN: Final = 3.0
_FIX: Final = {contender: fix for fix, contender in FIXES.items()}


def rows_of(turns: Sequence[Turn]) -> list[Json]:
    """Cells in the order in which they were first run; repetitions are pooled."""
    cells: dict[tuple[str, str], list[Turn]] = {}
    for one in turns:
        cells.setdefault((one.region, one.contender), []).append(one)
    return [row for runs in cells.values() for row in (_offers(runs), *_others(runs))]


def _offers(runs: Sequence[Turn]) -> Json:
    counts: Counts = functools.reduce(add, (run.counts for run in runs))
    seconds = sum(run.seconds for run in runs)
    missed = counts.ended - counts.made
    # Of polls that nobody answered; they have been counted as failed.
    lost = len(BIKES) * sum(not poll.is_answered for run in runs for poll in run.polls)
    low, high = success(runs)
    exact, is_bound = nines(counts.made, counts.ended)
    return {
        **_key(runs[0], "offers"),
        "offered_per_s": counts.asked / seconds, "done_per_s": counts.made / seconds, "samples": counts.ended,
        "success_frac": counts.made / counts.ended if counts.ended else None,
        "success_low_frac": low, "success_high_frac": high, "missed": missed,
        "nines": exact, "nines_is_bound": is_bound, "within_deadline_frac": counts.made / max(1, counts.ended),
        **percentiles(counts),
        "late": counts.late, "errors": counts.refused + counts.failed - lost, "lost": lost,
        "timeouts_per_s": counts.late / seconds, **_polled(runs),
        "flicker_per_minute": sum(changes_per_minute(run.polls) for run in runs) / len(runs),
        **_cpu(runs),
    }  # fmt: skip


def _polled(runs: Sequence[Turn]) -> Json:
    """What riders wait for a whole answer since the poll was due: nothing hides before offerservice's clock."""
    took = sorted(poll.took_ms for run in runs for poll in run.polls)
    return {name: quantile(took, share) if took else None for name, share in _POLLED}


def _cpu(runs: Sequence[Turn]) -> Json:
    """CPU is that of pricingservice with all its processes, for everything that it did."""
    cpu_ms = sum(run.used.cpu_ns for run in runs) / 1e6
    wasted_ms = sum(
        max(0.0, run.offers_worked - run.offers_direct - run.counts.made) * run.offer_cpu_ms for run in runs
    )
    jobs = sum(run.counts.ended + sum(map(len, run.others.values())) for run in runs)
    wall_ns = sum(run.used.wall_ns for run in runs)
    return {
        "wasted_cpu_frac": wasted_ms / cpu_ms if cpu_ms else None, "cpu_utilisation_frac": cpu_ms * 1e6 / wall_ns,
        "core_wait_frac": sum(run.used.core_wait_ns for run in runs) / wall_ns,
        "machine_busy_frac": sum(run.used.machine_ns for run in runs) / wall_ns / usable_cores(),
        "cpu_ms_per_job": cpu_ms / max(1, jobs), "offer_cpu_ms": _mean([run.offer_cpu_ms for run in runs]),
        "pss_mb": max(run.used.pss_mb for run in runs), "processes": max(run.used.processes for run in runs),
    }  # fmt: skip


def _others(runs: Sequence[Turn]) -> list[Json]:
    kinds = dict.fromkeys(kind for run in runs for kind in run.others)
    return [_of_kind(runs, kind) for kind in sorted(kinds)]


def _of_kind(runs: Sequence[Turn], kind: str) -> Json:
    requests = [one for run in runs for one in run.others.get(kind, [])]
    lost = sum(status == UNANSWERED for status, _ in requests)
    # Who was given up took at least so long: leaving it out would make a slow server look fast.
    took = sorted(latency_ms for status, latency_ms in requests if status in (200, UNANSWERED))
    seconds = sum(run.seconds for run in runs)
    return {
        **_key(runs[0], f"direct-{kind}"),
        "offered_per_s": len(requests) / seconds, "done_per_s": (len(took) - lost) / seconds, "samples": len(took),
        **{name: quantile(took, share) if len(took) >= least else None for name, share, least in _SHARES},
        "errors": len(requests) - len(took), "lost": lost,
    }  # fmt: skip


_POLLED: Final = (("poll_p50_ms", 0.5), ("poll_p99_ms", 0.99))
_SHARES: Final = (
    ("p50_ms", 0.5, 1), ("p95_ms", 0.95, 1), ("p99_ms", 0.99, 1), ("p999_ms", 0.999, MOST_EXACT),
)  # fmt: skip


def percentiles(counts: Counts) -> Json:
    """Of pricingservice's offers, from the sending of the request; p99.9 only from 10,000 samples."""
    return {
        name: counts.quantile_ms(share) if counts.samples >= least else None for name, share, least in _SHARES
    }  # fmt: skip


def success(runs: Sequence[Turn]) -> tuple[float, float]:
    """The 95 % interval of the share of bike and scooter offers that were made.

    The wider of two: Wilson's, which takes offers for independent, and a bootstrap over windows of five seconds, since
    what is late is late together.
    """
    made = sum(run.counts.made for run in runs)
    low, high = wilson(made, sum(run.counts.ended for run in runs))
    windows = _windows(runs)
    if len(windows) > 1:
        at = bootstrap(windows, _mean_of)
        low, high = min(low, max(0.0, at.low)), max(high, min(1.0, at.high))
    return low, high


def _mean_of(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(values.mean())


def _windows(runs: Sequence[Turn]) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    found: dict[tuple[int, int], list[float]] = {}
    for number, run in enumerate(runs):
        for poll in run.polls:
            window = found.setdefault((number, int(poll.due_s // _WINDOW_S)), [])
            window += [float(mode in poll.made) for mode in BIKES if mode in poll.made or mode in poll.missing]
    return [np.array(window) for window in found.values() if window]


def nines(made: int, ended: int) -> tuple[float | None, bool]:
    """−log10 of the share that was missed, and False; at no miss what the sample's size says at least, and True."""
    if not ended:
        return None, True
    if made < ended:
        return abs(math.log10(1 - made / ended)), False
    return max(0.0, math.log10(ended / _NONE_SEEN)), True


def _key(run: Turn, endpoint: str) -> Json:
    return {
        "contender": run.contender, "region": run.region, "fix": _FIX.get(run.contender), "endpoint": endpoint,
        "stage": "offers", "deadline_ms": CAP_MS if endpoint == "offers" else None,
    }  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
