"""The features in Go, through ctypes: the step that Avito took before their rewrite. `native/go` is a twin of features.rs.

Only for workers that were spawned: a Go runtime starts threads when its library is loaded and does not survive a fork (a
child that calls it may hang for ever, golang/go#15538), and it takes over signals. So it never enters the serving process.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from functools import cache
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from .build import GO_LIBRARY, build
from .features import FEATURE_COUNT

_FORMS: Final = {"packed": 0, "json": 1}


class NotAWorker(RuntimeError):
    """The Go library was asked for in a process that was not spawned as a worker."""


def features(
    values: list[bytes | None], user: bytes, now_s: int, form: Literal["packed", "json"] = "packed"
) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """As `native.features`: columns (rows, 60), column-major, and which value each row is. Releases the GIL.

    Raises:
        NotAWorker: this process was not spawned; give the function to a ProcessPoolExecutor(mp_context=spawn).
    """
    library = _library()
    taken = [value or b"" for value in values]
    count = len(taken)
    ends = np.cumsum([len(value) for value in taken], dtype=np.uint32)
    columns = np.empty((count, FEATURE_COUNT), np.float32, order="F")
    places = np.empty(count, np.uint32)
    rows = library.feed_features(
        _FORMS[form], b"".join(taken), ends.ctypes.data, count, user, len(user), now_s, columns.ctypes.data,
        places.ctypes.data,
    )  # fmt: skip
    if rows < 0:
        raise ValueError(f"reading a user: {len(user)} bytes, expected User.packed()")
    if rows < count:
        columns = np.asfortranarray(columns[:rows])
    return columns, places[:rows]


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
    pointer = ctypes.c_void_p
    library.feed_features.restype = ctypes.c_int
    library.feed_features.argtypes = [
        ctypes.c_int, ctypes.c_char_p, pointer, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_longlong, pointer, pointer,
    ]  # fmt: skip
    return library
