"""Packed records as numpy columns: one array of structures over their bytes, nothing copied."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .record import FIELDS, OFFSETS, RECORD_BYTES, Kind

_NUMPY: Final = {
    Kind.U8: "u1",
    Kind.U16: "<u2",
    Kind.U32: "<u4",
    Kind.I32: "<i4",
    Kind.FLAG: "u1",
    Kind.CATEGORY: "u1",
    Kind.CITY: "<u2",
    Kind.WORDS: "(8,)<u4",
    Kind.TOPICS: "(8,)i1",
}

# One packed record of the current version; the header's version is the field `version`. Values are as stored: scaled
# whole numbers, nulls as record.py says.
DTYPE: Final = np.dtype(
    {
        "names": ["version", *(field.name for field in FIELDS)],
        "formats": ["u1", *(_NUMPY[field.kind] for field in FIELDS)],
        "offsets": [0, *(OFFSETS[field.name] for field in FIELDS)],
        "itemsize": RECORD_BYTES,
    }
)

Records = NDArray[np.void]


def records_of(packed: bytes | bytearray | memoryview) -> Records:
    """The records that lie one after the other in `packed`: a view, read-only if it is."""
    return np.frombuffer(packed, DTYPE)
