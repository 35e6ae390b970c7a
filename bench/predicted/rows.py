"""A row: what was measured of one route, what was predicted of it, and where both differ, why."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.plan.measured import carried
from greenlane_tools.plan.simulation import Estimate
from greenlane_tools.plan.verify.compared import P50_FRAC, P99_FRAC
from greenlane_tools.plan.verify.reasons import UNEXPLAINED, Around, Miss, reasons

__all__ = ["FIGURES", "Asked", "Prediction", "Row", "cleared", "judged", "row_of"]

Row = dict[str, Any]
Floats = NDArray[np.float64]

#: (name, share, right within this share of what was measured, requests from which on it is shown).
FIGURES: Final = (("p50", 0.5, P50_FRAC, 20), ("p99", 0.99, P99_FRAC, 200))


@dataclass(frozen=True)
class Asked:
    """What is to be run.

    Args:
        loads: shares of what a process can do.
        contenders: in pricing's words; each system has its own of that kind.
        seconds: of load for each contender and load, over all repetitions.
        record_at: load of the one recording.
        folder: for recordings, profiles and samples; exists.
    """

    loads: tuple[float, ...]
    contenders: tuple[str, ...]
    seconds: float
    repetitions: int
    record_at: float
    folder: Path
    talk: Talk = field(repr=False)
    #: The recording is at least so long.
    least_record_s: float = 0.0

    @property
    def record_s(self) -> float:
        """Longer than a cell: it is what everything is predicted from."""
        return max(1.5 * self.seconds, self.least_record_s)

    @property
    def run_s(self) -> float:
        """Of one run."""
        return self.seconds / self.repetitions


@dataclass(frozen=True)
class Prediction:
    """What the simulator says of one route.

    Args:
        at: a percentile by its share.
        again_ms: the same with so many times the CPU.
        cpu_ms: of a request, mean of all routes.
    """

    at: Callable[[float], Estimate]
    again_ms: Callable[[float, float], float]
    cpu_ms: float


def cleared(recording: Path) -> Path:
    """The same file, or what is left of an earlier recording, taken away: a recorder writes over nothing."""
    recording.unlink(missing_ok=True)
    shutil.rmtree(f"{recording}.parts", ignore_errors=True)
    return recording


def row_of(key: Mapping[str, Any], parts: Sequence[Floats], predicted: Prediction, found: Around) -> Row:
    """The row.

    Args:
        key: system, contender, load, route: its first columns.
        parts: latencies of each repetition, ms; those without any are left out.
    """
    parts = [np.sort(part) for part in parts if len(part)]
    whole = np.sort(np.concatenate(parts)) if parts else np.empty(0)
    row: Row = {**key, "samples": len(whole)}
    misses: list[dict[str, Any]] = []
    for name, share, most, least in FIGURES:
        if len(whole) < least:
            continue
        said, seen = predicted.at(share), quantile(whole, share)
        each = [quantile(part, share) for part in parts]
        row |= {
            f"{name}_ms": seen,
            f"{name}_low_ms": min(each),
            f"{name}_high_ms": max(each),
            f"predicted_{name}_ms": said.at,
            f"predicted_{name}_low_ms": said.low,
            f"predicted_{name}_high_ms": said.high,
            f"{name}_error_frac": said.at / seen - 1,
            f"{name}_within": abs(said.at / seen - 1) <= most,
            f"{name}_carried": carried(share, len(whole)),
        }
        if not row[f"{name}_within"]:
            again = _again(predicted, share)
            miss = Miss(share, said.at, seen, most, whole, again)
            misses.append({"figure": name, "reasons": list(reasons(miss, found, predicted.cpu_ms))})
    return {
        **row,
        "cpu_ms_per_job": found.cpu_ms_per_job,
        "predicted_cpu_ms_per_job": predicted.cpu_ms,
        "others_cores": found.others_cores,
        "misses": misses,
    }


def judged(rows: Sequence[Row], name: str) -> tuple[int, int, int]:
    """(figures of that name, those within their target, misses that nothing explains)."""
    shown = [row for row in rows if f"{name}_within" in row]
    unexplained = [
        miss for row in shown for miss in row["misses"] if miss["figure"] == name and UNEXPLAINED in miss["reasons"]
    ]
    return len(shown), sum(row[f"{name}_within"] for row in shown), len(unexplained)


def _again(predicted: Prediction, share: float) -> Callable[[float], float]:
    return lambda cpu: predicted.again_ms(share, cpu)
