"""CPU that ran without the GIL on a loop.

The recorder looks now and then who has the GIL, and a thread that computes and has it not does so without. On the loop
itself that makes no difference; on threads others would run meanwhile. A recording of threads does not say when a C
call released the GIL: all of its CPU counts as under the GIL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from greenlane_tools.reader.rows import Job, Look

__all__ = ["unlocked_fracs"]

#: A smaller share is not told from noise.
_LEAST_FRAC: Final = 0.05
#: Fewer looks at a route say nothing of it.
_LEAST_LOOKS: Final = 20
#: Of the CPU of a process' requests: beyond it threads wait for each other there.
_WAITED_FRAC: Final = 0.05
#: Standard errors above `_LEAST_FRAC` that a share must be: short system calls release the GIL as well.
_ERRORS: Final = 2.0


def unlocked_fracs(looks: Iterable[Look], jobs: Mapping[str, Sequence[Job]]) -> Mapping[str, float]:
    """The share of its CPU that ran without the GIL, by route, as looks at a loop's thread tell it; 0 = hardly any.

    Args:
        jobs: by route.

    Routes that were looked at too seldom are not in it, nor are processes whose requests waited for the GIL: who waits
    wakes the recorder, whose looks then meet those moments more often in which nobody does.
    """
    contended = _contended(jobs.values())
    by_job = {(each.process, each.job): each for each in looks if each.process not in contended}
    found: dict[str, float] = {}
    for route, of in jobs.items():
        seen = [each for job in of if (each := by_job.get((job.process, job.job)))]
        count, ns = sum(each.looks for each in seen), sum(each.ns for each in seen)
        if count >= _LEAST_LOOKS and ns:
            frac = sum(each.free_ns for each in seen) / ns
            found[route] = round(frac, 3) if _surely(frac, count) > _LEAST_FRAC else 0.0
    return found


def _contended(jobs: Iterable[Sequence[Job]]) -> set[int]:
    """Processes whose requests waited for the GIL: threads beside the loop run some of them."""
    waited: dict[int, int] = {}
    cpu: dict[int, int] = {}
    for job in (each for of in jobs for each in of):
        waited[job.process] = waited.get(job.process, 0) + job.wait_ns.get("gil", 0)
        cpu[job.process] = cpu.get(job.process, 0) + job.cpu_ns
    return {process for process, ns in waited.items() if ns > _WAITED_FRAC * cpu[process]}


def _surely(frac: float, count: int) -> float:
    """The lower end of the share's interval (Wilson)."""
    square = _ERRORS**2 / count
    return (frac + square / 2 - math.sqrt(square * (frac * (1 - frac) + square / 4))) / (1 + square)
