"""The result of a run when its calls have ended."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from greenlane.placement.processes.parcel import pack, pack_call
from greenlane.wiring.placed_calls import placed, placement
from greenlane_tools.lab.placement.programs.beats import Count
from greenlane_tools.lab.placement.programs.job import Job

# --- Our placements, pinned and chosen: the same call gives an awaitable on a loop and the result in a greenlet.


#: Our contenders, and what their functions are pinned to.
PLACEMENTS: dict[str, Any] = {"thread": "thread", "process": "process", "greenlane": "auto"}


def pinned(contender: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give `fn` as that contender places it."""
    return placed(placement=PLACEMENTS[contender])(fn)


def chosen() -> tuple[str, str]:
    """Where calls of the one function that this process places go by now, and why."""
    (row,) = placement().placed()
    return row.placement, row.reason


# --- Bytes of a call that cross to another process and back: pickled (in band), and copied as they lie (out of band).


_HERE = ("inline", "thread", "to-thread", "to-thread-0.5ms")


def crossing_bytes(contender: str, fn: Any, args: tuple[Any, ...], result: object) -> tuple[int, int]:
    """In band and out of band, arguments and result together."""
    if contender in _HERE:
        return 0, 0
    if contender == "process":
        parcels = [pack_call(None, args, {}, contender), pack(result)]
        return sum(len(one.pickle) for one in parcels), sum(one.out_of_band_bytes for one in parcels)
    if contender == "ray":
        there, back = _five(args), _five(result)
        return there[0] + back[0], there[1] + back[1]
    return len(pickle.dumps((fn, args), 5)) + len(pickle.dumps(result, 5)), 0


def _five(message: object) -> tuple[int, int]:
    """With pickle 5's buffers beside it, as Ray has it in its store."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = len(pickle.dumps(message, 5, buffer_callback=buffers.append))
    return pickled, sum(buffer.raw().nbytes for buffer in buffers)


def left(job: Job, count: Count, fn: Callable[..., Any] | None = None, args: tuple[Any, ...] = ()) -> None:
    """Leave the result where the job says."""
    result, where = count.result, job.contender
    if fn is not None and result.took_ms:
        if where == "greenlane":
            where, result.reason = chosen()
            result.chosen = where
        result.bytes_in_band, result.bytes_out_of_band = crossing_bytes(where, fn, args, count.given)
    result.leave(job.result)
