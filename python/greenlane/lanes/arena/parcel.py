"""What crosses to another process: a pickle, and beside it the buffers that need no pickling.

Pickle protocol 5 takes the memory of numpy arrays, Arrow columns and pandas blocks out of band. Whole arguments and
results that are `bytes`, `bytearray` or `memoryview` of some size go out of band too: a memoryview arrives as one, so
JSON text or a packed record is parsed where it lies; bytes are copied once at arrival, because bytes own their memory.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from greenlane.errors import PlacementError

__all__ = ["SMALL_BYTES", "Parcel", "pack", "pack_call", "unpack"]

# Smaller buffers are copied with the message and out of it: at 10 GB/s 6 us, about what a block's book-keeping costs.
# So no small array, however long it is kept, takes a block.
SMALL_BYTES: Final = 64 << 10
_RAW: Final = (bytes, bytearray, memoryview)


@dataclasses.dataclass(slots=True)
class Parcel:
    """One object, ready to go."""

    pickle: bytes
    # Each one-dimensional, of bytes.
    buffers: list[memoryview]

    @property
    def in_band_bytes(self) -> int:
        """What was pickled: paid for at both ends, object by object."""
        return len(self.pickle)

    @property
    def out_of_band_bytes(self) -> int:
        """What is copied as it lies."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def drop(self) -> None:
        """Let go of the buffers."""
        self.buffers = []

    def check_size(self, most_bytes: int, name: str) -> None:
        """Raise PlacementError if it is larger than `most_bytes`; `name` is the function's."""
        if self.buffers or len(self.pickle) > most_bytes:
            size = self.in_band_bytes + self.out_of_band_bytes
            if size > most_bytes:
                raise PlacementError(
                    "send a payload between processes", name="function", value=name,
                    rule=f"at most {most_bytes >> 20} MB, not {size >> 20}",
                    hint="raise payload_max_mb, or send less",
                )  # fmt: skip


def pack(obj: object) -> Parcel:
    """Pickle `obj`; its buffers are referred to, not copied. Raises whatever its pickling raises."""
    pickled: list[pickle.PickleBuffer] = []
    text = pickle.dumps(_lifted(obj), 5, buffer_callback=pickled.append)
    return Parcel(text, [buffer.raw() for buffer in pickled] if pickled else [])


def pack_call(fn: object, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Parcel:
    """Pickle a call.

    Raises:
        PlacementError: an argument cannot be pickled.
    """
    args = tuple([_lifted(value) for value in args])
    lifted = {key: _lifted(value) for key, value in kwargs.items()} if kwargs else None
    try:
        return pack((fn, args, lifted))
    except Exception as error:
        raise PlacementError(
            "send a call to a worker process", name="function", value=name,
            rule=f"arguments that can be pickled ({type(error).__name__}: {error})",
            hint="give it plain values, arrays or bytes, or run it on the heavy lane's thread",
        ) from error  # fmt: skip


def unpack(text: bytes | memoryview, buffers: Iterable[Any]) -> Any:
    """Make the object again, its arrays on these buffers."""
    return pickle.loads(text, buffers=buffers)


class _Lifted:
    """A whole argument that is bytes: pickled as what makes it again from a buffer."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: Callable[..., object], value: Any) -> None:
        self.kind = kind
        self.value = value

    def __reduce__(self) -> tuple[object, ...]:
        return self.kind, (pickle.PickleBuffer(self.value),)


def _lifted(value: object) -> object:
    kind = type(value)
    if kind in _RAW:
        view = memoryview(value)  # type: ignore[arg-type]
        if kind is memoryview:
            if not view.c_contiguous:
                return value  # refused by pickle, with its words
            return _Lifted(memoryview, view.cast("B"))
        if view.nbytes >= SMALL_BYTES:
            return _Lifted(kind, value)
    return value
