"""Requests of a run as columns, and the file that keeps them (Apache Parquet: any table tool reads it).

A run is one contender's turn. Its file is written whole under another name and then renamed, so that a killed
comparison has every finished run and no half one. Files of several runs in one folder are one data set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow

# `status` of a request that has no HTTP status.
FAILED: Final = 0  # refused, reset, or an answer that is not HTTP
UNANSWERED: Final = -1  # no complete answer within the time-out, counted from the scheduled send

_TYPES: Final[Mapping[str, type[np.generic]]] = {
    "stream": np.uint16,
    "scheduled_ns": np.int64,
    "sent_ns": np.int64,
    "first_byte_ns": np.int64,
    "done_ns": np.int64,
    "status": np.int16,
    "worker": np.int32,
    "work_ms": np.float64,
}
#: Keys of a Parquet column are the run's, repeated (dictionary-encoded: they cost nothing).
Key = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Samples:
    """Requests in the order of their scheduled sends: arrays of one length. Times are ns since the run's start."""

    # Names of the streams (endpoints), by number.
    streams: tuple[str, ...]
    # uint16: index into `streams`.
    stream: NDArray[np.uint16]
    # When it was due: every latency starts here.
    scheduled_ns: NDArray[np.int64]
    # When its last byte was handed to the kernel; 0 = never.
    sent_ns: NDArray[np.int64]
    # When the answer's first byte was read; 0 = never.
    first_byte_ns: NDArray[np.int64]
    # When its last byte was read, or the request was given up.
    done_ns: NDArray[np.int64]
    # HTTP status, or FAILED, or UNANSWERED.
    status: NDArray[np.int16]
    # Number in the answer's header that the plan named (a worker's process id); 0 = none.
    worker: NDArray[np.int32]
    # Amount of work that the request asked for; 0 = none.
    work_ms: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.stream)

    def latency_ms(self) -> NDArray[np.float64]:
        """From the scheduled send to the end of the answer; of unanswered ones how long they were waited for."""
        return (self.done_ns - self.scheduled_ns) / 1e6

    def chosen(self, mask: NDArray[np.bool_]) -> Samples:
        """Those requests."""
        return Samples(self.streams, *(getattr(self, name)[mask] for name in _TYPES))

    def of(self, name: str) -> Samples:
        """Requests of one stream; empty when there is none of that name."""
        number = self.streams.index(name) if name in self.streams else -1
        return self.chosen(self.stream == number)

    def answered(self) -> NDArray[np.float64]:
        """What percentiles are taken of, ascending ms: status 2xx, and never answered (a bound from below)."""
        ok = (self.status >= 200) & (self.status < 300) | (self.status == UNANSWERED)
        return np.sort(self.latency_ms()[ok])

    @classmethod
    def empty(cls, streams: Sequence[str] = ()) -> Samples:
        """No request."""
        return cls(tuple(streams), *(np.empty(0, kind) for kind in _TYPES.values()))

    @classmethod
    def joined(cls, parts: Iterable[Samples]) -> Samples:
        """All requests of several runs behind each other; streams are distinguished by name."""
        parts = list(parts)
        names = tuple(dict.fromkeys(name for part in parts for name in part.streams))
        if not parts:
            return cls.empty()
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _TYPES}
        columns["stream"] = np.concatenate(
            [np.array([names.index(name) for name in part.streams], np.uint16)[part.stream] for part in parts]
        )
        return cls(names, **columns)


def keep(path: Path, key: Key, samples: Samples) -> None:
    """Writes one run's samples as a Parquet file, whole or not at all.

    Args:
        path: the file; its folder exists.
        key: columns in front, the same for each row: contender, repetition, whatever varies.

    Raises:
        OSError: no room, no permission.
    """
    import pyarrow
    import pyarrow.parquet

    size = len(samples)
    names = pyarrow.DictionaryArray.from_arrays(pyarrow.array(samples.stream), pyarrow.array(list(samples.streams)))
    columns: dict[str, pyarrow.Array] = {name: pyarrow.array([value] * size) for name, value in key.items()}
    columns["endpoint"] = names
    columns.update({name: pyarrow.array(getattr(samples, name)) for name in _TYPES if name != "stream"})
    part = path.with_name(f".{path.name}.part")
    pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd")
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(path)


def read(path: Path) -> tuple[dict[str, str | int | float], Samples]:
    """One run: its key and its samples.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no file of `keep`.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(str(error)) from None
    wanted = {field.name for field in fields(Samples)} - {"streams", "stream"} | {"endpoint"}
    if missing := wanted - set(table.column_names):
        raise ValueError(f"columns {', '.join(sorted(missing))} are missing")
    endpoint = table["endpoint"].combine_chunks().dictionary_encode()
    if isinstance(endpoint, pyarrow.ChunkedArray):
        endpoint = endpoint.combine_chunks()
    columns = {name: table[name].to_numpy().astype(kind) for name, kind in _TYPES.items() if name != "stream"}
    columns["stream"] = endpoint.indices.to_numpy().astype(np.uint16)
    key = {name: table[name][0].as_py() for name in table.column_names if name not in wanted} if len(table) else {}
    return key, Samples(tuple(endpoint.dictionary.to_pylist()), **columns)
