"""Bytes of a call that cross to another process and back: pickled (in band), and copied as they lie (out of band)."""

from __future__ import annotations

import pickle
from typing import Any

from greenlane.placement.processes.parcel import pack, pack_call

__all__ = ["crossing_bytes"]

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
