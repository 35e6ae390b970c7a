"""What crosses to another process: a pickle, and beside it the buffers that need no pickling.

Whole arguments and results (and the members of a tuple that is a result) that are numpy arrays of numbers, `bytes` or
`bytearray` of some size, or `memoryview` are *lifted*: their memory is a buffer, and what they are is a few numbers in
the pickle. So a memoryview arrives as one, and JSON text or a packed record is parsed where it lies; bytes are copied
once at arrival, because bytes own their memory. Of everything else, pickle protocol 5 takes the memory out of band
where a type allows it: arrays inside of other objects, Arrow columns, pandas blocks.
"""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from greenlane.errors import PlacementError

__all__ = ["SMALL_BYTES", "Parcel", "pack", "pack_call", "unpack", "unpack_call"]

# Smaller buffers are copied with the message and out of it; the native module decides so too.
SMALL_BYTES: Final = 64 << 10
#: Its place (an index or a name; -1 = the whole), what it is, shape, whether it is in Fortran's order.
_Lift = tuple[int | str, int | str, tuple[int, ...], bool]
_RAW: Final[tuple[Callable[[Any], object], ...]] = (bytes, bytearray, memoryview)
_WHOLE: Final = -1
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
    def in_band_bytes(self) -> int:
        """What was pickled: paid for at both ends, object by object."""
        return len(self.pickle)

    @property
    def out_of_band_bytes(self) -> int:
        """What is copied as it lies."""
        return sum(buffer.nbytes for buffer in self.buffers)

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


def pack(result: object) -> Parcel:
    """Pack what a function gave; buffers are referred to, not copied. Raises whatever the pickling raises."""
    lifts: list[_Lift] = []
    lifted: list[memoryview] = []
    if type(result) is tuple:
        result = _lifted(result, lifts, lifted)
    elif found := _found(result):
        lifts.append((_WHOLE, *found[1:]))
        lifted.append(found[0])
        result = None
    return _parcel((result, lifts), lifted) if lifts else _parcel((result,), lifted)


def pack_call(fn: object, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Parcel:
    """Pack a call.

    Raises:
        PlacementError: an argument cannot be pickled.
    """
    lifts: list[_Lift] = []
    lifted: list[memoryview] = []
    try:
        if args:
            args = _lifted(args, lifts, lifted)
        if kwargs:
            kwargs = _named_lifted(kwargs, lifts, lifted)
        parcel = _parcel((fn, args, kwargs or None, lifts) if lifts else (fn, args, kwargs or None), lifted)
    except Exception as error:
        raise PlacementError(
            "send a call to a worker process", name="function", value=name,
            rule=f"arguments that can be pickled ({type(error).__name__}: {error})",
            hint="give it plain values, arrays or bytes, or run it on the heavy lane's thread",
        ) from error  # fmt: skip
    parcel.names_main = _MAIN in parcel.pickle
    return parcel


def unpack(text: Any, buffers: Sequence[Any]) -> Any:
    """Make what `pack` packed again, its arrays on these buffers. Raises whatever the unpickling raises."""
    result, *more = pickle.loads(text, buffers=buffers)
    if not more:
        return result
    (lifts,) = more
    if lifts[0][0] == _WHOLE:
        return _restored(lifts[0], buffers[-1])
    members = list(result)
    for lift, buffer in zip(lifts, buffers[-len(lifts) :], strict=True):
        members[lift[0]] = _restored(lift, buffer)
    return tuple(members)


def unpack_call(text: Any, buffers: Sequence[Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Give what `pack_call` packed: function, arguments, named ones. Raises whatever the unpickling raises."""
    fn, args, kwargs, *more = pickle.loads(text, buffers=buffers)
    kwargs = kwargs or {}
    if more:
        (lifts,) = more
        args = list(args)
        for lift, buffer in zip(lifts, buffers[-len(lifts) :], strict=True):
            place = lift[0]
            (kwargs if type(place) is str else args)[place] = _restored(lift, buffer)
    return fn, args, kwargs


def _parcel(obj: object, lifted: list[memoryview]) -> Parcel:
    """Pickle; the buffers that pickle finds come before those that were lifted."""
    pickled: list[pickle.PickleBuffer] = []
    text = pickle.dumps(obj, 5, buffer_callback=pickled.append)
    return Parcel(text, [*[buffer.raw() for buffer in pickled], *lifted] if pickled else lifted)


def _lifted(values: tuple[Any, ...], lifts: list[_Lift], buffers: list[memoryview]) -> tuple[Any, ...]:
    """Give the values without what was lifted from among them."""
    rest: list[Any] | None = None
    for place, value in enumerate(values):
        if found := _found(value):
            rest = rest or list(values)
            rest[place] = None
            lifts.append((place, *found[1:]))
            buffers.append(found[0])
    return values if rest is None else tuple(rest)


def _named_lifted(values: Mapping[str, Any], lifts: list[_Lift], buffers: list[memoryview]) -> dict[str, Any]:
    rest = dict(values)
    for place, value in values.items():
        if found := _found(value):
            rest[place] = None
            lifts.append((place, *found[1:]))
            buffers.append(found[0])
    return rest


#: What is lifted, by its very type: its memory, what it is, shape, Fortran's order; None = it is left to pickle.
_Found = tuple[memoryview, int | str, tuple[int, ...], bool] | None


def _found(value: object) -> _Found:
    lift = _LIFTS.get(type(value))
    if lift is None:
        if _ndarray is not object or not _learn_numpy(sys.modules.get("numpy")):
            return None
        lift = _LIFTS.get(type(value), _leave)
    return lift(value)


def _leave(_: object) -> _Found:
    return None


def _lift_bytes(value: bytes) -> _Found:
    return (memoryview(value), 0, (), False) if len(value) >= SMALL_BYTES else None


def _lift_bytearray(value: bytearray) -> _Found:
    return (memoryview(value), 1, (), False) if len(value) >= SMALL_BYTES else None


def _lift_memoryview(value: memoryview) -> _Found:
    # One that is not contiguous is refused by pickle, with its words.
    return (value.cast("B"), 2, (), False) if value.c_contiguous else None


def _lift_array(value: Any) -> _Found:
    kind = _KINDS.get(value.dtype)
    if kind is None or not value.size:
        return None
    try:
        memory = pickle.PickleBuffer(value).raw()
    except BufferError:  # It is not contiguous.
        return None
    return memory, kind, value.shape, not value.flags.c_contiguous


_LIFTS: Final[dict[type, Callable[[Any], _Found]]] = {
    bytes: _lift_bytes,
    bytearray: _lift_bytearray,
    memoryview: _lift_memoryview,
}
#: numpy's array, once the process has imported it, and the letters of its types that are plain numbers in this
#: machine's order of bytes.
_ndarray: Any = object
_KINDS: Final[dict[Any, str]] = {}
_LETTERS: Final = "?bBhHiIqQlLefdgFDG"


def _learn_numpy(numpy: Any) -> bool:
    """Lift its arrays from now on. False = it is not there, or not yet whole."""
    global _ndarray
    try:
        array, dtype = numpy.ndarray, numpy.dtype
    except AttributeError:
        return False
    _KINDS.update((dtype(letter), letter) for letter in _LETTERS)
    _LIFTS[array] = _lift_array
    _ndarray = array
    return True


def _restored(lift: _Lift, buffer: Any) -> Any:
    _, kind, shape, fortran = lift
    if type(kind) is int:
        return _RAW[kind](buffer)
    if _ndarray is object:
        _learn_numpy(importlib.import_module("numpy"))
    return _ndarray(shape, kind, buffer, 0, None, "F" if fortran else "C")
