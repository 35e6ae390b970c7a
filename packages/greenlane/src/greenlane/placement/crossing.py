"""Whether a call could cross to another process, and with how much: found out while it runs in this one.

The arguments are pickled before the function runs and again afterwards (if that differs, the function changes what it
is given), and so is its result. Nothing is kept; what grows beyond a limit is given up. Pickling is done in pieces, so
that other threads get their turns.
"""

from __future__ import annotations

import io
import pickle
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Crossing", "inspected"]

#: What is pickled of a call or a result at most: it takes a loop some 4 ms, and the worker as long.
_MOST_IN_BAND: Final = 1 << 20
#: Buffers beyond this are not read to see whether they have changed, only counted.
_MOST_READ: Final = 64 << 20
_RAW: Final = (bytes, bytearray, memoryview)
#: Raw arguments smaller than this are pickled with the others.
_SMALL: Final = 64 << 10


@dataclass
class Crossing:
    """What was found out."""

    # Why it cannot cross, in words; "" = it can.
    refused: str = ""
    in_band: int = 0
    out_of_band: int = 0
    #: What pickling of the arguments, or reading of the result, keeps the caller; the longer one.
    kept_ns: int = 0


class _TooMuchError(Exception):
    pass


class _Weight(io.RawIOBase):
    """Counts and sums up what is written; raises when it is too much."""

    def __init__(self) -> None:
        super().__init__()
        self.in_band = 0
        self.out_of_band = 0
        self.sum = 0

    def write(self, piece: Any) -> int:
        size = memoryview(piece).nbytes
        self.in_band += size
        if self.in_band > _MOST_IN_BAND:
            raise _TooMuchError
        self.sum = zlib.crc32(piece, self.sum)
        return size

    def buffer(self, buffer: pickle.PickleBuffer) -> None:
        self.view(buffer.raw())

    def view(self, view: memoryview) -> None:
        self.out_of_band += view.nbytes
        if self.out_of_band <= _MOST_READ:
            self.sum = zlib.crc32(view, self.sum)


def inspected(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], found: Crossing) -> Any:
    """Run `fn(*args, **kwargs)` and give its result; `found` is filled in."""
    before, sent_ns = _weighed((args, dict(kwargs)), "an argument", found)
    result = fn(*args, **kwargs)
    if before is None:
        return result
    after, _ = _weighed((args, dict(kwargs)), "an argument", found)
    if after is not None and after.sum != before.sum:
        found.refused = "it changes its argument"
    back, read_ns = _weighed(result, "its result", found)
    if back is not None:
        found.in_band = before.in_band + back.in_band
        found.out_of_band = before.out_of_band + back.out_of_band
        found.kept_ns = max(sent_ns, read_ns)
    return result


def _weighed(what: Any, named: str, found: Crossing) -> tuple[_Weight | None, int]:
    """Give (what it weighs, how long the pickling took); None = it cannot cross, and `found` says why."""
    weight = _Weight()
    from_ns = time.thread_time_ns()
    try:
        pickle.Pickler(weight, 5, buffer_callback=weight.buffer).dump(_lifted(what, weight))
    except _TooMuchError:
        found.refused = f"{named} is over {_MOST_IN_BAND >> 20} MB pickled"
    except Exception as error:
        found.refused = f"{named} cannot be pickled ({_short(error)})"
    else:
        return weight, time.thread_time_ns() - from_ns
    return None, 0


def _lifted(what: Any, weight: _Weight) -> Any:
    """Take raw bytes out: they cross as they lie."""
    if type(what) in _RAW and len(what) >= _SMALL:
        weight.view(memoryview(what).cast("B"))
        return None
    if isinstance(what, tuple) and type(what) is tuple:
        return tuple([_lifted(each, weight) for each in what])
    if type(what) is dict and all(type(key) is str for key in what) and len(what) < 64:
        return {key: _lifted(each, weight) for key, each in what.items()}
    return what


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:120]
