"""One row a cell: a contender in a stage, in the slow-merchant run one for each class of merchants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from greenlane_tools.lab.demo import Json, percentiles, shares

from . import article
from .run import Result, slots
from .stages import rate_per_s, waiting_most

#: Healthy orders are in time when their merchant's 300 ms and this much more have passed since they were published.
DEADLINE_MS: Final = 360.0
#: Orders are looked at by the time of their publish in windows of this length.
WINDOW_MS: Final = 5_000.0
_ENDPOINT: Final = "send_order"


def rows_of(result: Result) -> list[Json]:
    """All of them, stage by stage."""
    rows = []
    for stage, contenders in result.runs.items():
        for contender, runs in contenders.items():
            if stage == "slow-merchant":
                rows += [_slow(contender, stage, runs, merchant_class) for merchant_class in ("healthy", "slow")]
            else:
                rows.append(_full(contender, stage, runs))
    return rows


def _slow(contender: str, stage: str, runs: Sequence[Json], merchant_class: str) -> Json:
    is_slow = merchant_class == "slow"
    mine = [[one for one in run["orders"] if (one[0] in run["troubled"]) == is_slow] for run in runs]
    orders = [one for each in mine for one in each]
    seconds = sum(max(due_ms for _, due_ms, _, _ in run["orders"]) for run in runs) / 1e3
    done = sorted(done_ms for *_, done_ms in orders if done_ms is not None)
    return {
        **_key(contender, stage, merchant_class),
        "offered_per_s": len(orders) / seconds, "done_per_s": len(done) / seconds,
        "samples": len(orders), "done": len(done), **shares("done", len(done), len(orders)),
        **shares("within_deadline", sum(done_ms <= DEADLINE_MS for done_ms in done), len(orders)),
        **percentiles(done, len(orders)),
        **{f"{name[:-3]}_done_ms": value for name, value in percentiles(done).items()},
        "waiting_max": max(waiting_most(each) for each in mine),
        "parked_max": _parked(runs), "running_max": _running(runs, merchant_class),
        "publish_lag_ms": max(run["lag_ms"] for run in runs),
        "by_publish": by_publish(mine),
        **_common(runs, sum(done is not None for run in runs for *_, done in run["orders"])),
    }  # fmt: skip


def by_publish(runs: Sequence[Sequence[Any]]) -> list[Json]:
    """How many of the orders published in each window of five seconds were done when it was counted."""
    windows: dict[int, list[int]] = {}
    for _, due_ms, _, done_ms in (order for run in runs for order in run):
        window = windows.setdefault(int(due_ms // WINDOW_MS), [0, 0])
        window[0] += 1
        window[1] += done_ms is not None
    return [
        {"from_s": at * WINDOW_MS / 1e3, "published": published, "done": done}
        for at, (published, done) in sorted(windows.items())
    ]


def _full(contender: str, stage: str, runs: Sequence[Json]) -> Json:
    seconds = sum(run["usage"]["wall_ns"] for run in runs) / 1e9
    done = sum(len(run["done_ms"]) for run in runs)
    latencies = [one for run in runs for one in run.get("latency_ms", [])]
    per_s = done_per_s(runs)
    came = sorted(one for one in latencies if one is not None)
    common = _common(runs, done)
    in_article = {"per_h": article.per_h(per_s)} if stage in ("saturated", "offered") else {}
    return {
        **_key(contender, stage, None), **in_article,
        "offered_per_s": runs[0]["offered_per_s"], "done_per_s": per_s,
        "samples": done, "done": done, **shares("done", len(came), len(latencies)),
        **percentiles(came, len(latencies)),
        "parked_max": _parked(runs), "queue_emptied": any(run["emptied"] for run in runs),
        **common,
        "cpu_ms_per_job": cpu_ms(runs) if per_s else None,
        "pss_mb_per_slot": common["pss_mb"] / slots(contender), "slots": slots(contender), "seconds": seconds,
    }  # fmt: skip


def done_per_s(runs: Sequence[Json]) -> float:
    """Orders a second of one contender's runs with a full queue, or at an even rate."""
    each = (
        rate_per_s(run["done_ms"], slots(run["contender"]), run["usage"]["wall_ns"] / 1e9, run["call_s"])
        for run in runs
    )
    return sum(each) / len(runs)


def cpu_ms(runs: Sequence[Json]) -> float:
    """CPU of an order there: of a rate that whole batches make, it is what its orders cost."""
    usage = [run["usage"] for run in runs]
    cpu_frac = sum(one["cpu_ns"] for one in usage) / sum(one["wall_ns"] for one in usage)
    per_s = done_per_s(runs)
    return 1e3 * cpu_frac / per_s if per_s else math.inf


def _key(contender: str, stage: str, merchant_class: str | None) -> Json:
    return {"contender": contender, "endpoint": _ENDPOINT, "stage": stage, "merchant_class": merchant_class}


def _common(runs: Sequence[Json], jobs: int) -> Json:
    """CPU and memory are those of the worker with all its processes."""
    usage = [run["usage"] for run in runs]
    cpu_ns, wall_ns = sum(one["cpu_ns"] for one in usage), sum(one["wall_ns"] for one in usage)
    return {
        "cpu_ms_per_job": cpu_ns / 1e6 / jobs if jobs else None,
        "cpu_utilisation_frac": cpu_ns / wall_ns,
        "pss_mb": max(one["pss_mb"] for one in usage), "processes": max(one["processes"] for one in usage),
        "start_to_first_s": sum(run["start_s"] for run in runs) / len(runs),
        "errors": sum(run["errors"] for run in runs), "lost": sum(run["lost"] for run in runs),
        "effects_doubled": sum(run["effects_doubled"] for run in runs),
        "calls_repeated": sum(run["calls_repeated"] for run in runs), "repetitions": len(runs),
    }  # fmt: skip


def _parked(runs: Sequence[Json]) -> int | None:
    seen = [run["usage"]["parked_most"] for run in runs if run["usage"]["parked_most"] is not None]
    return max(seen) if seen else None


def _running(runs: Sequence[Json], merchant_class: str) -> int:
    """The most calls at one merchant of the class at once."""
    is_slow = merchant_class == "slow"
    seen: list[int] = [
        most for run in runs for name, most in run["running_most"].items() if (name in run["troubled"]) == is_slow
    ]
    return max(seen)
