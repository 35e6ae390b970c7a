"""Why a prediction missed: only what was looked at and found so.

    few         the percentile rests on so few requests that it is only known to be somewhere around the prediction
    cpu         requests computed longer, or shorter, than predicted; with that CPU the simulation agrees
    others      other processes took CPU of the machine meanwhile: a circumstance, not a proof
    late        the load left late: likewise
    refused     answers other than 2xx are in no measured percentile, late ones are in the predicted one

A miss without any of these is not explained: the model, or the profile, is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.resampling import Quantile
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.samples import FAILED
from greenlane_tools.lab.statistics import bootstrap

__all__ = ["UNEXPLAINED", "Around", "Miss", "around", "reasons"]

UNEXPLAINED: Final = "not explained"
#: Cores of others below which a machine counts as quiet; the lab's remarks have the same.
_QUIET_CORES: Final = 0.15
#: Differences in CPU that are worth a word.
_CPU_FRAC: Final = 0.01
#: Of the answers: beyond it a percentile is of others than it says.
_ERRORS_FRAC: Final = 0.005


@dataclass(frozen=True, slots=True)
class Around:
    """What was measured around the requests of a contender at a load."""

    cpu_ms_per_job: float
    others_cores: float
    #: What the generator said of its own lateness; "" = it was in time.
    late: str
    errors_frac: float


@dataclass(frozen=True, slots=True)
class Miss:
    """A percentile that was predicted wrongly.

    Args:
        most: a share: predictions are right within it.
        latencies_ms: that were measured.
        again_ms: the same percentile predicted with so many times the CPU.
    """

    share: float
    predicted_ms: float
    measured_ms: float
    most: float
    latencies_ms: NDArray[np.float64]
    again_ms: Callable[[float], float]


def around(runs: Sequence[Run]) -> Around:
    """Of a contender's runs at one load; none is empty."""
    status = np.concatenate([run.samples.status for run in runs])
    well = (status >= 200) & (status < 300)
    return Around(
        cpu_ms_per_job=sum(run.cpu_ms for run in runs) / max(1, int(well.sum())),
        others_cores=sum(run.others_cores for run in runs) / len(runs),
        late=next((run.late for run in runs if run.late), ""),
        errors_frac=float(((~well) & (status >= FAILED)).mean()) if len(status) else 0.0,
    )


def reasons(miss: Miss, found: Around, predicted_cpu_ms: float) -> tuple[str, ...]:
    """Sentences, each true; `UNEXPLAINED` when there is none that explains it.

    Args:
        predicted_cpu_ms: of a request, in the mean.
    """
    explained = [*_few(miss), *_cpu(miss, found, predicted_cpu_ms)]
    if found.errors_frac > _ERRORS_FRAC:
        explained.append(f"{found.errors_frac:.1%} were answered with errors, which no measured percentile holds")
    besides = []
    if found.others_cores >= _QUIET_CORES:
        besides.append(f"other processes took {found.others_cores:.2f} cores meanwhile")
    if found.late:
        besides.append(found.late)
    return (*(explained or [UNEXPLAINED]), *besides)


def _few(miss: Miss) -> list[str]:
    """The percentile's own interval, as if requests were independent: they are less, so that it is rather wider."""
    if not len(miss.latencies_ms):
        return []
    known = bootstrap([miss.latencies_ms], Quantile(miss.share))
    if known.low <= miss.predicted_ms * (1 + miss.most) and miss.predicted_ms * (1 - miss.most) <= known.high:
        count = len(miss.latencies_ms)
        return [f"few: {count} requests only tell that it is from {known.low:.0f} to {known.high:.0f} ms"]
    return []


def _cpu(miss: Miss, found: Around, predicted_cpu_ms: float) -> list[str]:
    if not predicted_cpu_ms or not found.cpu_ms_per_job:
        return []
    factor = found.cpu_ms_per_job / predicted_cpu_ms
    if abs(factor - 1) < _CPU_FRAC:
        return []
    again_ms = miss.again_ms(factor)
    if abs(again_ms / miss.measured_ms - 1) > miss.most:
        return []
    return [
        f"cpu: requests took {found.cpu_ms_per_job:.2f} ms of it in the mean, {predicted_cpu_ms:.2f} predicted; with "
        f"that the prediction is {again_ms:.0f} ms"
    ]
