"""What a call and its result weigh when they cross to another process: found out while the call runs in this one.

Arguments, and the object of a method or a partial, are pickled before the function runs and again afterwards (if that
differs, the function changes what it is given), and so is its result. Nothing is kept; what grows beyond a limit is
given up.
"""

from __future__ import annotations

import io
import pickle
import time
import types
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from greenlane.placement.processes.parcel import call_content, result_content

__all__ = ["Payload", "weighed"]

#: What is pickled of a call or a result at most: it takes a loop some 4 ms, and the worker as long.
_MOST_IN_BAND: Final = 1 << 20


@dataclass
class Payload:
    """What was found out."""

    # Why it cannot cross, in words; "" = it can.
    refused: str = ""
    in_band: int = 0
    out_of_band: int = 0
    #: CPU of pickling the arguments and the result.
    pickling_ns: int = 0


class _TooMuchError(Exception):
    pass


class _Scale(io.RawIOBase):
    """Counts and sums up what is written to it; raises when it is too much."""

    def __init__(self) -> None:
        super().__init__()
        self.in_band = self.out_of_band = self.sum = 0

    def write(self, piece: Any) -> int:
        size = memoryview(piece).nbytes
        self.in_band += size
        if self.in_band > _MOST_IN_BAND:
            raise _TooMuchError
        self.sum = zlib.crc32(piece, self.sum)
        return size

    def buffer(self, buffer: pickle.PickleBuffer) -> None:
        view = buffer.raw()
        self.out_of_band += view.nbytes
        self.sum = zlib.crc32(view, self.sum)


def weighed(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], found: Payload) -> Any:
    """Run `fn(*args, **kwargs)` and give its result; `found` is filled in."""
    # Functions and classes cross by their name; anything else is pickled, and may be changed by its call.
    own = None if isinstance(fn, types.FunctionType | type) else fn
    before = _weight(call_content(own, args, kwargs), "an argument", found)
    result = fn(*args, **kwargs)
    if before is None:
        return result
    after = _weight(call_content(own, args, kwargs), "an argument", Payload())
    if after is not None and after.sum != before.sum:
        found.refused = "it changes its argument"
    _weight(result_content(result), "its result", found)
    return result


def _weight(what: Any, named: str, found: Payload) -> _Scale | None:
    """Add what something weighs; None = it cannot cross, and `found` says why."""
    scale, from_ns = _Scale(), time.thread_time_ns()
    try:
        pickle.Pickler(scale, 5, buffer_callback=scale.buffer).dump(what)
    except _TooMuchError:
        found.refused = f"{named} is over {_MOST_IN_BAND >> 20} MB pickled"
    except Exception as error:
        found.refused = f"{named} cannot be pickled ({type(error).__name__}: {error})".partition("\n")[0][:160]
    else:
        found.in_band += scale.in_band
        found.out_of_band += scale.out_of_band
        found.pickling_ns += time.thread_time_ns() - from_ns
        return scale
    return None
