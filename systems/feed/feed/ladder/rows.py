"""One row a cell, and one for each of its stages: repetitions are pooled."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from greenlane_tools.lab import verdict
from greenlane_tools.lab.demo import Json, percentiles, shares
from greenlane_tools.lab.statistics import quantile

from .loaded import DEADLINE_MS
from .options import OURS
from .run import Result

Runs = Sequence[Json]
_ENDPOINT: Final = "/feed"


def rows_of(result: Result) -> list[Json]:
    """Cells at half of each variant's capacity, with greenlane at the same rate; then those of the ladder."""
    rows = []
    for name, pair in result.pairs.items():
        for contender, runs in pair["cells"].items():
            costs = pair["costs"][contender]
            rows += _cell(result, contender, runs, costs, beside=name if contender == OURS else "", cell="half")
    for contender, runs in result.ladder.items():
        costs = result.pairs[contender]["costs"][contender]
        rows += _cell(result, contender, runs, costs, beside="", cell="at the pool's rate")
    return rows


def _cell(result: Result, contender: str, runs: Runs, costs: Json, beside: str, cell: str) -> list[Json]:
    return [_row(result, contender, runs, costs, beside, cell), *_stage_rows(contender, runs, beside, cell)]


def _row(result: Result, contender: str, runs: Runs, costs: Json, beside: str, cell: str) -> Json:
    itself = result.alone[contender]
    latencies = sorted(one for run in runs for one in run["latency_ms"])
    errors = sum(run["errors"] for run in runs)
    sent = len(latencies) + errors
    seconds = sum(run["usage"]["seconds"] for run in runs)
    row: Json = {
        "contender": contender, "endpoint": _ENDPOINT, "stage": None, "cell": cell, "beside": beside,
        "utilisation_frac": runs[0]["per_s"] / (itself["rush"]["per_s"] or math.inf),
        "offered_per_s": runs[0]["per_s"],
        "done_per_s": len(latencies) / seconds,
        **shares("within_deadline", sum(one <= DEADLINE_MS for one in latencies), sent), **percentiles(latencies),
        "samples": sent, "errors": errors, "degraded": sum(run["usage"]["problems"] for run in runs),
        "cpu_ms_per_job": cpu_ms(runs), "parts_cpu_ms": parts_cpu_ms(runs),
        "path_cpu_ms_per_job": path_ms(runs, costs),
        "alone_cpu_ms_per_job": costs["cpu_ms"], "alone_path_cpu_ms_per_job": costs["path_cpu_ms"],
        "alone_wall_ms": costs["wall_ms"],
        "cpu_utilisation_frac": sum(_spent_ms(run) for run in runs) / (seconds * 1e3),
        "pss_mb": pss_mb(runs), "processes": runs[-1]["processes"],
        "loop_lag_p99_ms": lag_of(runs),
        "bytes_moved_per_job": sum(run["usage"]["bytes_moved"] for run in runs) / max(1, _requests(runs)),
        "capacity_per_s": itself["rush"]["per_s"],
        "max_per_s": itself["most"]["max_per_s"], "bounded_by": itself["most"]["bounded_by"],
        "ndcg": itself["orders"]["ndcg"],
        "orders_right": itself["orders"]["right"], "orders": itself["orders"]["of"],
        "cpu_shares_frac": itself["shares"],
        "placements": itself["placements"],
        "others_cores": statistics.fmean(run["usage"]["others_ms"] / run["usage"]["seconds"] / 1e3 for run in runs),
        "repetitions": len(runs),
    }  # fmt: skip
    return row


def _stage_rows(contender: str, runs: Runs, beside: str, cell: str) -> list[Json]:
    """Of a request: CPU in all processes, I/O, wait for the loop (at least; at most)."""
    names = dict.fromkeys(name for run in runs for name in run["usage"]["stages"])
    requests = max(1, _requests(runs))
    key = {"contender": contender, "endpoint": _ENDPOINT, "cell": cell, "beside": beside}

    def sum_ms(name: str, part: str) -> float | None:
        rows = [run["usage"]["stages"].get(name, {}) for run in runs]
        found = [row[part] for row in rows if part in row]
        return sum(found) / requests if found else None

    return [
        {**key, "stage": name, **{part: sum_ms(name, part) for part in ("cpu_ms", "io_ms", "wait_ms", "wait_most_ms")}}
        for name in names
    ]


def cpu_ms(runs: Runs) -> float:
    """CPU of the service and its processes for one request; not the stores' and the models'."""
    return sum(_spent_ms(run) for run in runs) / max(1, _requests(runs))


def parts_cpu_ms(runs: Runs) -> dict[str, float]:
    """CPU for one request by part: the service, its workers, history store, models, shards."""
    sums: dict[str, float] = {}
    for run in runs:
        usage = run["usage"]
        of_run = {"service": usage["main_ms"], "workers": usage["workers_ms"], **usage["site_ms"]}
        for part, spent_ms in of_run.items():
            sums[part] = sums.get(part, 0.0) + spent_ms
    return {part: sum_ms / max(1, _requests(runs)) for part, sum_ms in sums.items()}


def path_frac(costs: Json) -> float:
    """The ranking path's share of the CPU where requests came one at a time, which is where it can be told exactly."""
    return min(1.0, costs["path_cpu_ms"] / costs["cpu_ms"]) if costs["cpu_ms"] else 0.0


def path_ms(runs: Runs, costs: Json) -> float:
    """Of `cpu_ms` the ranking path's."""
    return cpu_ms(runs) * path_frac(costs)


def p95_ms(runs: Runs) -> float:
    """From the due instant; an error is later than anything."""
    latencies = sorted(one for run in runs for one in run["latency_ms"])
    latencies += [math.inf] * sum(run["errors"] for run in runs)
    return quantile(latencies, 0.95) if latencies else math.inf


def pss_mb(runs: Runs) -> float:
    """Memory after load: the most of the repetitions."""
    return max(float(run["pss_mb"]) for run in runs)


def lag_of(runs: Runs) -> float | None:
    """99th percentile of how late the loop looks, ms; None where nobody counts rounds."""
    together: dict[str, tuple[int, int]] = {}
    for run in runs:
        for place, (count, ns) in run["usage"]["rounds"].items():
            was = together.get(place, (0, 0))
            together[place] = was[0] + count, was[1] + ns
    return loop_lag_ms(together, sum(run["usage"]["seconds"] for run in runs))


def ratio(
    one: Runs, other: Runs, statistic: Callable[[Runs], float], factor: float = 1.0
) -> tuple[float, float, float]:
    """`statistic` of one ÷ that of the other, times `factor`, with its interval over repetitions (NaN of one)."""
    at, low, high = verdict.ratio(one, other, statistic)
    return factor * at, factor * low, factor * high


def _spent_ms(run: Json) -> float:
    spent: float = run["usage"]["main_ms"] + run["usage"]["workers_ms"]
    return spent


def _requests(runs: Runs) -> int:
    return sum(run["usage"]["requests"] for run in runs)


# --- How late a loop looks at what arrives at a random moment, from the lengths of its rounds.
# Of what arrives while the loop waits nothing is late; of what arrives in a round of length d the lateness is even
# between 0 and d. So P(late by more than x) = sum over rounds with d > x of (d - x), divided by all the time. No
# probe is needed for it that would cost the service CPU.


def loop_lag_ms(rounds: Mapping[str, tuple[int, int]], seconds: float, share: float = 0.99) -> float | None:
    """The percentile of that lateness; None when nobody counted rounds.

    Args:
        rounds: class -> (rounds, ns of them all), as `service.clock.Rounds`; a class's rounds count as equally long.
        seconds: of observation.
        share: 0.99 = later only for one in a hundred.
    """
    if not rounds:
        return None
    allowed_ns = (1 - share) * seconds * 1e9
    # From the longest: with n rounds of S ns in all beyond x, the late time is S - n x.
    count, sum_ns = 0, 0
    lengths = sorted(((ns / many, many, ns) for many, ns in rounds.values()), reverse=True)
    for place, (_, many, ns) in enumerate(lengths):
        count, sum_ns = count + many, sum_ns + ns
        lag_ns = (sum_ns - allowed_ns) / count
        shorter_ns = lengths[place + 1][0] if place + 1 < len(lengths) else 0.0
        if lag_ns >= shorter_ns:
            return lag_ns / 1e6
    return 0.0
