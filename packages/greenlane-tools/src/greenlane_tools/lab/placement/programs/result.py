"""The result of a run when its calls have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlane_tools.lab.placement.programs.beats import Count
from greenlane_tools.lab.placement.programs.crossing import crossing_bytes
from greenlane_tools.lab.placement.programs.job import Job
from greenlane_tools.lab.placement.programs.ours import chosen

__all__ = ["left"]


def left(job: Job, count: Count, fn: Callable[..., Any] | None = None, args: tuple[Any, ...] = ()) -> None:
    """Leave the result where the job says."""
    result, where = count.result, job.contender
    if fn is not None and result.took_ms:
        if where == "greenlane":
            where, result.reason = chosen()
            result.chosen = where
        result.bytes_in_band, result.bytes_out_of_band = crossing_bytes(where, fn, args, count.given)
    result.leave(job.result)
