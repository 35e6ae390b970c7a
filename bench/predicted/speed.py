"""How fast a service's core was, moment by moment, as its own counted work shows (`metered_pricing`).

On a shared machine the same work takes once and, some seconds later, 1.9 times as long, with nothing else running that
could be seen: a neighbour of the host's. No plan knows when. So a recording is told in CPU of a core at one speed, that
of the calibration, and a prediction is made for the speed that each measured request met. What is left between both is
the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.reader.recording import Recording
from greenlane_tools.reader.rows import Job, Sample, Segment

__all__ = ["AtOneSpeed", "Speed", "metered"]

#: Work of so long before and after a moment tells its speed.
_AROUND_NS: Final = 150_000_000

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Speed:
    """What work took.

    Args:
        at_ns: when a piece of it ended, ascending.
        cpu_ns: of all pieces up to there.
        calibrated_ns: the same as it would have taken when it was calibrated.
    """

    at_ns: Ints
    cpu_ns: NDArray[np.float64]
    calibrated_ns: NDArray[np.float64]

    def times(self, from_ns: float, to_ns: float) -> float:
        """So many times the calibrated CPU, between two moments; of the nearest work where there is none."""
        count = len(self.at_ns) - 1
        if count < 1:
            return 1.0
        first = int(np.searchsorted(self.at_ns, from_ns - _AROUND_NS))
        last = int(np.searchsorted(self.at_ns, to_ns + _AROUND_NS))
        first, last = min(first, count - 1), min(max(last, first + 1), count)
        took = self.cpu_ns[last] - self.cpu_ns[first]
        return float(took / (self.calibrated_ns[last] - self.calibrated_ns[first]))

    @property
    def mean(self) -> float:
        """Over all of its work."""
        return float(self.cpu_ns[-1] / self.calibrated_ns[-1]) if len(self.at_ns) else 1.0


def metered(path: Path, iterations_per_ms: float) -> Speed:
    """What the processes of one service have noted.

    Args:
        path: METERED_FILE.
    """
    tables = [np.fromfile(each, np.int64).reshape(-1, 3) for each in sorted(path.parent.glob(f"{path.name}.*"))]
    rows = np.concatenate([table[table[:, 2] > 0] for table in tables]) if tables else np.empty((0, 3), np.int64)
    rows = rows[np.argsort(rows[:, 0])]
    return Speed(rows[:, 0], rows[:, 1].cumsum(dtype=np.float64), (rows[:, 2] / iterations_per_ms * 1e6).cumsum())


class AtOneSpeed(Recording):
    """A recording in CPU of the calibrated core."""

    def __init__(self, path: Path, speed: Speed) -> None:
        super().__init__(path)
        self._speed = speed

    @cached_property
    def jobs(self) -> list[Job]:
        """See `Recording`."""
        return [
            job._replace(cpu_ns=round(job.cpu_ns / self._times(job.handler_ns, job.end_ns))) for job in super().jobs
        ]

    @cached_property
    def samples(self) -> list[Sample]:
        """See `Recording`: each second's CPU by its own speed."""
        found: list[Sample] = []
        before: dict[int, tuple[Sample, float]] = {}
        for sample in super().samples:
            cpu_ns = float(sample.cpu_ns)
            if sample.process in before:
                last, sum_ns = before[sample.process]
                cpu_ns = sum_ns + (sample.cpu_ns - last.cpu_ns) / self._times(last.at_ns, sample.at_ns)
            before[sample.process] = (sample, cpu_ns)
            found.append(sample._replace(cpu_ns=round(cpu_ns)))
        return found

    def segments(self, process: int, job: int) -> list[Segment]:
        """See `Recording`: stretches of CPU are shorter, or longer, from their begin."""
        found = super().segments(process, job)
        if not found:
            return found
        times = self._times(min(each.from_ns for each in found), max(each.to_ns for each in found))
        return [_scaled(each, times) for each in found]

    def _times(self, from_ns: float, to_ns: float) -> float:
        return self._speed.times(from_ns, to_ns)


def _scaled(segment: Segment, times: float) -> Segment:
    if segment.state != "cpu":
        return segment
    return replace(segment, to_ns=segment.from_ns + round((segment.to_ns - segment.from_ns) / times))
