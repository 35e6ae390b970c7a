"""Runs from tables of samples: Parquet as `samples.keep` writes it, CSV with the same columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.compare.subject import Run
from greenlane_tools.lab.samples import Samples

if TYPE_CHECKING:
    import pyarrow

__all__ = ["runs_of_table", "table_of"]

_NEEDED: Final = ("endpoint", "scheduled_ns", "done_ns", "status")
_TYPES: Final = {
    "scheduled_ns": np.int64, "sent_ns": np.int64, "first_byte_ns": np.int64, "done_ns": np.int64,
    "status": np.int16, "worker": np.int32, "work_ms": np.float64,
}  # fmt: skip


def table_of(path: Path) -> pyarrow.Table:
    """The file as a table.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no table, is damaged, or has other columns.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.name.endswith((".csv", ".csv.gz")):
            table = pyarrow.csv.read_csv(path)
        else:
            # A file object: no scheme, glob or partition is read into the name.
            with path.open("rb") as file:
                table = pyarrow.parquet.read_table(file)
    except pyarrow.ArrowException as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    if missing := [name for name in _NEEDED if name not in table.column_names]:
        raise ValueError(f"columns {', '.join(missing)} are missing")
    return table


def runs_of_table(table: pyarrow.Table) -> Iterator[Run]:
    """The runs in a table: rows whose other columns are alike.

    Raises:
        ValueError: a column's values are not what its name says.
    """
    if not len(table):
        return
    keys = [name for name in table.column_names if name not in _TYPES and name != "endpoint"]
    codes = [_coded(table, name)[1] for name in keys] or [np.zeros(len(table), np.int64)]
    firsts, which = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)[1:]
    whole = _samples(table)
    for number in np.argsort(firsts):
        samples = whole.chosen(which.reshape(-1) == number)
        # Stretches of time are cut out of them.
        order = np.argsort(samples.scheduled_ns, kind="stable")
        columns = {field.name: getattr(samples, field.name) for field in fields(Samples) if field.name != "streams"}
        ordered = Samples(samples.streams, **{name: values[order] for name, values in columns.items()})
        yield Run({name: table[name][int(firsts[number])].as_py() for name in keys}, ordered)


def _samples(table: pyarrow.Table) -> Samples:
    names, stream = _coded(table, "endpoint")
    columns: dict[str, Any] = {name: _column(table, name) for name in _TYPES}
    return Samples(tuple(map(str, names)), stream=stream.astype(np.uint16), **columns)


def _coded(table: pyarrow.Table, name: str) -> tuple[list[object], NDArray[np.int64]]:
    """A column's different values, and which one each row has."""
    column = table[name].combine_chunks().dictionary_encode()
    if table[name].null_count:
        raise ValueError(f"column {name} has empty values")
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    return column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.int64)


def _column(table: pyarrow.Table, name: str) -> NDArray[np.generic]:
    kind = _TYPES[name]
    if name not in table.column_names:
        return np.zeros(len(table), kind)
    if table[name].null_count:
        raise ValueError(f"column {name} has empty values")
    try:
        found: NDArray[np.generic] = table[name].to_numpy().astype(kind)
        return found
    except (ValueError, TypeError):
        raise ValueError(f"column {name} holds {table[name].type}, not numbers") from None
