"""The features in Go, through ctypes: the step that Avito took before their rewrite. `native/go` is features.rs's twin.

Only for workers that were spawned: a Go runtime starts threads when its library is loaded and does not survive a fork
(a child that calls it may hang for ever, golang/go#15538), and it takes over signals. So it never enters the process
that serves.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .features import FEATURE_COUNT
from .native import GO_LIBRARY, build

# Columns of what is found beside the features, as main.go has them.
_FOUND: Final = 6


class NotAWorker(RuntimeError):
    """The Go library was asked for in a process that was not spawned as a worker."""


@dataclass(frozen=True)
class Values:
    """Stored items one behind the other, as they travel to a worker: one copy, not an object each.

    Args:
        blob: the values; what the store has not got is empty.
        ends: uint32, where each ends.
    """

    blob: bytes
    ends: NDArray[np.uint32]


@dataclass(frozen=True)
class Matrix:
    """Features of items, and what the rules look at: uint32 columns with a value for each row.

    Args:
        columns: float32, (rows, 60), column-major.
        ids, sellers, categories, boosts: as native.Ranking has them.
        older: 1 = stored by an older version.
        places: which of the values each row is; absent and unreadable ones have no row.
    """

    columns: NDArray[np.float32]
    ids: NDArray[np.uint32]
    sellers: NDArray[np.uint32]
    categories: NDArray[np.uint32]
    boosts: NDArray[np.uint32]
    older: NDArray[np.uint32]
    places: NDArray[np.uint32]


def joined(values: list[bytes | None]) -> Values:
    """Values as they travel. Cost: 0.5 ms for 3,000 of 1 kB."""
    taken = [value or b"" for value in values]
    return Values(b"".join(taken), np.cumsum([len(value) for value in taken], dtype=np.uint32))


def features(values: Values, user: bytes, now_s: int) -> Matrix:
    """As `native.features`, of items stored as JSON. Releases the GIL.

    Raises:
        NotAWorker: this process was not spawned; give the function to a ProcessPoolExecutor(mp_context=spawn).
    """
    library = _library()
    count = len(values.ends)
    columns = np.empty((count, FEATURE_COUNT), np.float32, order="F")
    found = np.empty((count, _FOUND), np.uint32, order="F")
    rows = library.feed_features(
        values.blob, values.ends.ctypes.data, count, user, len(user), now_s,
        columns.ctypes.data, found.ctypes.data,
    )  # fmt: skip
    if rows < 0:
        raise ValueError(f"reading a user: {len(user)} bytes, expected User.packed()")
    if rows < count:
        columns = np.asfortranarray(columns[:rows])
    return Matrix(columns, *(np.ascontiguousarray(found[:rows, column]) for column in range(_FOUND)))


@cache
def _library() -> ctypes.CDLL:
    if multiprocessing.parent_process() is None:
        raise NotAWorker(
            "loading the Go features: this process serves or tests, expected a worker started by spawn\n"
            "hint: ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
        )
    return _loaded(build(GO_LIBRARY))


def _loaded(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    number, pointer = ctypes.c_int, ctypes.c_void_p
    library.feed_features.restype = number
    library.feed_features.argtypes = [
        ctypes.c_char_p, pointer, number, ctypes.c_char_p, number, ctypes.c_longlong, pointer, pointer,
    ]  # fmt: skip
    return library
