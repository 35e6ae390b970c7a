"""What crosses to another process: a pickle, and beside it the buffers that need no pickling (protocol 5).

numpy arrays, Arrow columns and pandas blocks give their memory themselves. Whole arguments and results (and members of
a tuple that is a result) that are `bytes` or `bytearray` of some size, or `memoryview` of bytes, are wrapped, and give
theirs. A memoryview arrives as one: JSON or records are parsed where they lie. bytes are copied once more at arrival.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Final

from greenlane.errors import PlacementError

__all__ = ["MOST_BYTES", "Parcel", "call_content", "pack", "pack_call", "result_content", "unpack"]

#: Largest payload, either way. Arbitrary: a mistake rather than a call.
MOST_BYTES: Final = 1 << 30
# Raw arguments smaller than this are pickled with the others.
_SMALL_BYTES: Final = 64 << 10
_MAIN: Final = b"__main__"


@dataclasses.dataclass(slots=True)
class Parcel:
    """One object, ready to go."""

    pickle: bytes
    # Each one-dimensional, of bytes.
    buffers: list[memoryview]
    # Whether the pickle needs the program's main module.
    names_main: bool = False

    @property
    def out_of_band_bytes(self) -> int:
        """What is copied as it lies."""
        return sum(map(len, self.buffers))

    def check_size(self, most_bytes: int, name: str) -> None:
        """Raise PlacementError if it is larger than `most_bytes`; `name` is the function's."""
        size = len(self.pickle) + self.out_of_band_bytes
        if size > most_bytes:
            raise PlacementError(
                "send a payload between processes", name="function", value=name,
                rule=f"at most {most_bytes >> 20} MB, not {size >> 20}",
                hint="send less, or the name of a file",
            )  # fmt: skip


class _Raw:
    """Bytes that cross as a buffer."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce_ex__(self, _: Any) -> Any:
        return type(self._value), (pickle.PickleBuffer(self._value),)


def pack(result: object) -> Parcel:
    """Pack what a function gave; buffers are referred to, not copied. Raises whatever the pickling raises."""
    return _parcel(result_content(result))


def pack_call(fn: object, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Parcel:
    """Pack a call: `(fn, args, kwargs)`.

    Raises:
        PlacementError: an argument cannot be pickled.
    """
    try:
        parcel = _parcel(call_content(fn, args, kwargs))
    except Exception as error:
        raise PlacementError(
            "send a call to a worker process", name="function", value=name,
            rule=f"arguments that can be pickled ({type(error).__name__}: {error})",
            hint="give it plain values, arrays or bytes, or run it on the heavy lane's thread",
        ) from error  # fmt: skip
    parcel.names_main = _MAIN in parcel.pickle
    return parcel


def unpack(text: Any, buffers: Sequence[Any]) -> Any:
    """Make what was packed again, its arrays on these buffers. Raises whatever the unpickling raises."""
    return pickle.loads(text, buffers=buffers)


def call_content(fn: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Give what is pickled of a call."""
    return fn, [_raw(value) for value in args], {key: _raw(value) for key, value in kwargs.items()}


def result_content(result: object) -> Any:
    """Give what is pickled of a result."""
    return tuple([_raw(each) for each in result]) if type(result) is tuple else _raw(result)


def _raw(value: Any) -> Any:
    """Give what stands for bytes of some size, or a memoryview of bytes, in a pickle; anything else as it is."""
    kind = type(value)
    if kind is memoryview:
        is_raw = value.format == "B" and value.ndim == 1 and value.c_contiguous
    else:
        is_raw = kind in (bytes, bytearray) and len(value) >= _SMALL_BYTES
    return _Raw(value) if is_raw else value


def _parcel(what: object) -> Parcel:
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(what, 5, buffer_callback=buffers.append)
    return Parcel(text, [buffer.raw() for buffer in buffers])
