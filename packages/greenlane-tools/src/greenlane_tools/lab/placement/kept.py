"""What a run leaves in a folder: every call and every heartbeat as a Parquet file, which any table tool reads."""

from __future__ import annotations

from pathlib import Path

from greenlane_tools.lab.placement.cells import Measured

__all__ = ["keep"]


def keep(path: Path, measured: Measured) -> None:
    """Writes a row a call (`took_ms`) and a row a heartbeat (`late_ms`), each with its cell and repetition.

    Raises:
        OSError: no room, no permission.
    """
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, list[object]] = {
        name: [] for name in ("function", "contender", "callers", "repetition", "quantity", "ms")
    }
    for cell, runs in measured.items():
        name = "" if cell.function is None else cell.function.name
        for repetition, run in enumerate(runs):
            for quantity in ("took_ms", "late_ms"):
                values = getattr(run.result, quantity)
                for column, value in zip(
                    columns, (name, cell.contender.name, cell.callers, repetition, quantity), strict=False
                ):
                    columns[column] += [value] * len(values)
                columns["ms"] += values
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")
