"""The last requests with their stages, kept while somebody looks at them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from feed.service.job import Job

# So many requests are kept; a page that asks every half a second misses none below 1,000 per s.
_KEPT: Final = 500
# Nothing is kept when nobody has asked for so long: what is measured shall not pay for pages.
_WATCHED_S: Final = 5.0


@dataclass(frozen=True)
class Finished:
    """A request that was answered.

    Args:
        number: 1 for the first one that was kept.
        user: for whom.
        began_s: on the loop's clock.
        wall_ms: from its begin to its answer.
        coroutines: tasks that it took.
        stages: `Stage.row` by name, in the order in which they began.
        degraded: the parts that failed.
    """

    number: int
    user: int
    began_s: float
    wall_ms: float
    coroutines: int
    stages: Mapping[str, Mapping[str, float]]
    degraded: list[str]


class Live:
    """Keeps requests while it is watched; else a request costs it a comparison.

    Args:
        clock: seconds; None = the running loop's, on which jobs begin.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or _loops
        self._finished: deque[Finished] = deque(maxlen=_KEPT)
        self._number = 0
        self._watched_until_s = 0.0

    def count(self, job: Job) -> None:
        """A request was answered."""
        now_s = self._clock()
        if now_s > self._watched_until_s:
            return
        self._number += 1
        wall_ms = round(1e3 * (now_s - job.began_s), 3)
        parts = [problem.part for problem in job.problems]
        rows = job.stages.rows()
        self._finished.append(Finished(self._number, job.user_id, job.began_s, wall_ms, job.stages.tasks, rows, parts))

    def since(self, number: int) -> dict[str, Any]:
        """The requests after this number, oldest first; from now on requests are kept for a while."""
        now_s = self._clock()
        self._watched_until_s = now_s + _WATCHED_S
        requests = [
            {
                "number": one.number, "user": one.user, "ago_s": round(now_s - one.began_s, 3), "wall_ms": one.wall_ms,
                "coroutines": one.coroutines, "stages": one.stages, "degraded": one.degraded,
            }
            for one in self._finished
            if one.number > number
        ]  # fmt: skip
        return {"number": self._number, "requests": requests}


def _loops() -> float:
    return asyncio.get_running_loop().time()
