"""What a run leaves in a folder: every request as a Parquet file, which any table tool reads."""

from __future__ import annotations

from pathlib import Path

from greenlane_tools.lab.part3.cells import Measured

__all__ = ["keep"]


def keep(path: Path, measured: Measured) -> None:
    """Writes every request of every run, a row each, times in ns since its run began; baselines too.

    Raises:
        OSError: no room, no permission.
    """
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, list[object]] = {}
    for cell, runs in measured.items():
        key = {
            "contender": cell.runtime.name,
            "green_threads": cell.green_threads,
            "set_cpu_ms": cell.shape.cpu_ms,
            "set_network_ms": cell.shape.network_ms,
            "calls": cell.shape.calls,
            "together": cell.shape.together,
        }
        for repetition, run in enumerate(runs):
            for request in run.requests:
                row = key | {
                    "repetition": repetition,
                    "number": request.number,
                    "arrival_ns": request.arrival_ns - run.began_ns,
                    "spawn_ns": request.spawn_ns - run.began_ns,
                    "handler_ns": request.handler_ns - run.began_ns,
                    "end_ns": request.end_ns - run.began_ns,
                }
                for name, value in row.items():
                    columns.setdefault(name, []).append(value)
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")
