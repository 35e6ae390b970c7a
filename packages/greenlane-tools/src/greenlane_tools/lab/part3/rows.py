"""One row a cell: what was measured, beside what was computed and what theory says."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from greenlane_tools.lab.part3.cells import Cell, Measured
from greenlane_tools.lab.part3.clocks import CLOCKS, latencies_ms, little
from greenlane_tools.lab.part3.run import Run
from greenlane_tools.lab.statistics import quantile

__all__ = ["Row", "rows_of"]

Row = dict[str, Any]


def rows_of(measured: Measured) -> list[Row]:
    """Rows in the order of the cells; baselines that nobody asked for are none. Repetitions are pooled.

    `speedup` is None where one green thread of the runtime and shape was not run.
    """
    alone = {(cell.runtime, cell.shape): _per_s(runs) for cell, runs in measured.items() if cell.green_threads == 1}
    return [
        _row(cell, runs, alone.get((cell.runtime, cell.shape))) for cell, runs in measured.items() if not cell.baseline
    ]


def _row(cell: Cell, runs: Sequence[Run], baseline_per_s: float | None) -> Row:
    per_s = _per_s(runs)
    cpu_s = sum(run.cpu_ns for run in runs) / 1e9
    row: Row = {
        "contender": cell.runtime.name,
        "green_threads": cell.green_threads,
        "requests": cell.requests,
        "set_cpu_ms": cell.shape.cpu_ms,
        "set_network_ms": cell.shape.network_ms,
        "calls": cell.shape.calls,
        "together": cell.shape.together,
        "done_per_s": per_s,
        "speedup": per_s / baseline_per_s if baseline_per_s else None,
        "baseline_per_s": baseline_per_s,
        "cpu_utilisation_frac": cpu_s / sum(run.seconds for run in runs),
        "computed_utilisation_frac": per_s * cell.shape.cpu_ms / 1000,
        "cpu_ms_per_job": 1000 * cpu_s / sum(len(run.requests) for run in runs),
    }
    requests = [request for run in runs for request in run.requests]
    for clock in CLOCKS:
        values = latencies_ms(requests, clock)
        row |= {f"{clock}_p{share * 100:g}_ms": quantile(values, share) for share in (0.5, 0.95, 0.99)}
        row[f"{clock}_mean_ms"] = statistics.fmean(values)
    law = little(runs)
    row |= {f"little_{clock}_jobs": getattr(law, clock) for clock in CLOCKS}
    row["little_empty_jobs"] = law.empty
    yields = [run.yield_ns for run in runs if run.yield_ns is not None]
    return {
        **row,
        **_theory(cell),
        "yield_us": statistics.fmean(yields) / 1000 if yields else None,
        "samples": len(requests),
        "repetitions": len(runs),
        "others_cores": statistics.fmean(run.others_cores for run in runs),
        "runtime": runs[0].runtime,
    }


def _theory(cell: Cell) -> Row:
    mva_per_s, mva_ms = cell.shape.means(cell.green_threads)
    return {
        "bound_per_s": cell.shape.most_per_s(cell.green_threads),
        "bound_ms": cell.shape.least_ms(cell.green_threads),
        "mva_per_s": mva_per_s,
        "mva_ms": mva_ms,
    }


def _per_s(runs: Sequence[Run]) -> float:
    return sum(len(run.requests) for run in runs) / sum(run.seconds for run in runs)
