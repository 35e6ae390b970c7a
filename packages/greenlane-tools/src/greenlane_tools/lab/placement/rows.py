"""One row a cell: latency, CPU, heartbeat and bytes; repetitions are pooled."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from greenlane_tools.lab.placement.cells import Cell, Measured
from greenlane_tools.lab.placement.run import Run
from greenlane_tools.lab.statistics import quantile

__all__ = ["Row", "rows_of"]

Row = dict[str, Any]


def rows_of(measured: Measured) -> list[Row]:
    """Rows in the order of the cells. What could not be measured is None, and `missing` says why."""
    idle = [late for cell, runs in measured.items() if cell.function is None for run in runs for late in _late(run)]
    idle_p99_ms = quantile(sorted(idle), 0.99) if idle else None
    return [_row(cell, runs, idle_p99_ms) for cell, runs in measured.items()]


def _row(cell: Cell, runs: Sequence[Run], idle_p99_ms: float | None) -> Row:
    results = [run.result for run in runs if not run.failed]
    took_ms = sorted(took for result in results for took in result.took_ms)
    late_ms = sorted(late for result in results for late in result.late_ms)
    errors = sum(result.errors for result in results)
    seconds = sum(result.seconds for result in results)
    cpu_ms = sum(result.cpu_ns for result in results) / 1e6
    beat_p99_ms = quantile(late_ms, 0.99) if late_ms else None
    last = results[-1] if results else None
    return {
        "function": "" if cell.function is None else cell.function.name,
        "contender": cell.contender.name,
        "callers": cell.callers,
        "p50_ms": quantile(took_ms, 0.5) if took_ms else None,
        "p99_ms": quantile(took_ms, 0.99) if took_ms else None,
        "done_per_s": len(took_ms) / seconds if took_ms else None,
        "cpu_ms_per_job": cpu_ms / len(took_ms) if took_ms else None,
        "heartbeat_p50_ms": quantile(late_ms, 0.5) if late_ms else None,
        "heartbeat_p99_ms": beat_p99_ms,
        "heartbeat_added_p99_ms": (
            beat_p99_ms - idle_p99_ms if beat_p99_ms is not None and idle_p99_ms is not None else None
        ),
        "bytes_in_band": last.bytes_in_band if last and took_ms else None,
        "bytes_out_of_band": last.bytes_out_of_band if last and took_ms else None,
        "samples": len(took_ms),
        "errors": errors,
        "beats": len(late_ms),
        "repetitions": len(results),
        "p50_ms_by_repetition": [statistics.median(result.took_ms) for result in results if result.took_ms],
        "chosen": last.chosen if last else "",
        "reason": last.reason if last else "",
        "missing": cell.missing or _why(runs),
        "others_cores": statistics.fmean(run.others_cores for run in runs) if runs else None,
    }


def _why(runs: Sequence[Run]) -> str:
    """What went wrong first: of a run that failed, or of a call."""
    return next((said for run in runs if (said := run.failed or run.result.first_error)), "")


def _late(run: Run) -> Sequence[float]:
    return run.result.late_ms
