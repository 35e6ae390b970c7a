"""One row per cell: contender × endpoint × utilisation, pooled over its repetitions.

The names are those of every table, plot and `--json` of Greenlane. Unless said otherwise None = does not apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane.demo.rates import ENDPOINTS, Endpoint
from greenlane.demo.samples import UNANSWERED, RunKey, Sample
from greenlane.lab.statistics import quantile, wilson

# A percentile further out than its samples carry is not printed.
_SAMPLES_FOR_P999: Final = 10_000
# An answer up to this long after the load's end still counts as done at its rate: a request of 300 ms that was sent
# just before the end is no backlog.
GRACE_S: Final = 1.0


@dataclass(frozen=True)
class Run:
    """What one contender did in one repetition."""

    key: RunKey
    # Duration of the load, without the drain.
    seconds: float
    samples: Sequence[Sample]
    # User + system time of the service's processes (gunicorn masters and workers), load and drain.
    cpu_ms: float
    # Time in which it was spent: the load and the drain.
    wall_s: float
    # Of the same processes, at the end of the run.
    pss_mb: float
    # Cores that processes which are no part of the comparison took meanwhile.
    others_cores: float = 0.0


@dataclass(frozen=True)
class Row:
    """One cell."""

    contender: str
    # "all" = every endpoint of the mix; its percentiles are None, since a mixture's mean nothing.
    endpoint: str
    # "client" = from the scheduled send to the end of the answer.
    stage: str
    # "light", "heavy", or "all".
    lane: str
    utilisation_frac: float
    offered_per_s: float
    # Answered with 200 until at most a second after the load's end.
    done_per_s: float
    # Of all requests offered, failed ones included; with its 95 % Wilson interval.
    within_deadline_frac: float | None
    within_deadline_low_frac: float | None
    within_deadline_high_frac: float | None
    # Of requests answered with 200, and unanswered ones at the time they were given up.
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    # None below 10,000 samples.
    p999_ms: float | None
    # Latencies that the percentiles stand on.
    samples: int
    # All jobs of the contender at this utilisation, all its service processes; the same in each endpoint's row.
    cpu_ms_per_job: float
    # Of one core, measured, load and drain; `dedicated` adds up two workers.
    cpu_utilisation_frac: float
    pss_mb: float
    # Answers other than 200, and connections that failed.
    errors: int
    # Requests without a complete answer when they were given up.
    lost: int
    # Of task systems; always None here.
    effects_doubled: None = None
    calls_repeated: None = None


def pooled(runs: Iterable[Run], endpoints: Mapping[str, Endpoint] = ENDPOINTS) -> list[Row]:
    """Rows of all runs, pooled over repetitions: by utilisation, contender in order of appearance, endpoint."""
    cells: dict[tuple[float, str], list[Run]] = {}
    for run in runs:
        cells.setdefault((run.key.utilisation_frac, run.key.contender), []).append(run)
    return [
        row for _, cell in sorted(cells.items(), key=lambda item: item[0][0]) for row in _cell_rows(cell, endpoints)
    ]


def find(rows: Iterable[Row], contender: str, endpoint: str, utilisation_frac: float) -> Row | None:
    """The row of one cell."""
    wanted = (contender, endpoint, utilisation_frac)
    return next((row for row in rows if (row.contender, row.endpoint, row.utilisation_frac) == wanted), None)


def latencies_ms(samples: Iterable[Sample]) -> list[float]:
    """What percentiles are taken of, ascending: answered with 200, or never answered (a bound from below)."""
    return sorted(sample.latency_ms() for sample in samples if sample.status in (200, UNANSWERED))


def within(samples: Iterable[Sample], deadline_ms: float) -> int:
    """How many were answered with 200 in time."""
    return sum(sample.status == 200 and sample.latency_ms() <= deadline_ms for sample in samples)


def _cell_rows(cell: Sequence[Run], endpoints: Mapping[str, Endpoint]) -> list[Row]:
    names = [name for name in endpoints if any(sample.endpoint == name for run in cell for sample in run.samples)]
    return [_row(cell, name, endpoints) for name in [*names, "all"]]


def _row(cell: Sequence[Run], name: str, endpoints: Mapping[str, Endpoint]) -> Row:
    seconds = sum(run.seconds for run in cell)
    everything = [sample for run in cell for sample in run.samples]
    samples = [sample for sample in everything if name in ("all", sample.endpoint)]
    deadline_ms = None if name == "all" else endpoints[name].deadline_ms
    share = low = high = None
    if deadline_ms is not None and samples:
        hits = within(samples, deadline_ms)
        share, (low, high) = hits / len(samples), wilson(hits, len(samples))
    latencies = latencies_ms(samples)
    percentiles = [None if name == "all" or not latencies else quantile(latencies, at) for at in (0.5, 0.95, 0.99)]
    answered = sum(sample.status == 200 for sample in everything)
    cpu_ms = sum(run.cpu_ms for run in cell)
    return Row(
        contender=cell[0].key.contender,
        endpoint=name,
        stage="client",
        lane="all" if name == "all" else endpoints[name].lane,
        utilisation_frac=cell[0].key.utilisation_frac,
        offered_per_s=len(samples) / seconds,
        done_per_s=sum(_done_in_time(run, name) for run in cell) / seconds,
        within_deadline_frac=share,
        within_deadline_low_frac=low,
        within_deadline_high_frac=high,
        p50_ms=percentiles[0],
        p95_ms=percentiles[1],
        p99_ms=percentiles[2],
        p999_ms=quantile(latencies, 0.999) if name != "all" and len(latencies) >= _SAMPLES_FOR_P999 else None,
        samples=len(latencies),
        cpu_ms_per_job=cpu_ms / answered if answered else 0.0,
        cpu_utilisation_frac=cpu_ms / 1000 / sum(run.wall_s for run in cell),
        pss_mb=max(run.pss_mb for run in cell),
        errors=sum(sample.status not in (200, UNANSWERED) for sample in samples),
        lost=sum(sample.status == UNANSWERED for sample in samples),
    )


def _done_in_time(run: Run, name: str) -> int:
    until_ns = (run.seconds + GRACE_S) * 1e9
    return sum(
        sample.status == 200 and sample.done_ns <= until_ns and name in ("all", sample.endpoint)
        for sample in run.samples
    )
