"""One row a cell: a contender in a stage, in the slow-merchant run one for each class of merchants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from greenlane_tools.lab import verdict
from greenlane_tools.lab.demo import Json, cell, columns, must_show, percentiles, shares
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import amount, factor, share
from pos.contenders import CONTENDERS, OURS
from pos.demo import article
from pos.demo.run import Result, slots
from pos.demo.stages import rate_per_s, waiting_most

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


# --- What must be shown, against what was measured in the same run.


Runs = Sequence[Json]
_TIMES: Final = 16.0
_CPU: Final = 1.10
#: What `greenlane celery` is started with: the settings task_parked_most and task_most_frac.
MOST_PARKED: Final = 1_000
MOST_FRAC: Final = 0.5


def verdicts_of(result: Result) -> list[Verdict]:
    """Of Greenlane's workers; none where none was measured, and none of a stage that was not."""
    ours = dict.fromkeys(name for cells in result.runs.values() for name in cells if name.startswith(OURS))
    return [
        one for name in ours for of in (_capacity, _healthy, _slow_claims, _nothing_lost) for one in of(result, name)
    ]


def _capacity(result: Result, name: str) -> Iterator[Verdict]:
    cells = result.runs.get("capacity", {})
    ours, four, gevent = (cells.get(one, []) for one in (name, "prefork-4", "gevent-200"))
    if ours and four:
        remark = f"{amount(done_per_s(ours))} and {amount(done_per_s(four))} tasks a second"
        times = verdict.ratio(ours, four, done_per_s)
        yield Verdict(f"{name}: tasks per second ÷ those of the whole prefork-4 worker", *times, ">=", _TIMES, remark)
    if ours and gevent:
        remark = f"{amount(cpu_ms(ours))} and {amount(cpu_ms(gevent))} ms, 3 ms of them the task's own"
        yield Verdict(f"{name}: CPU per task ÷ gevent-200's", *verdict.ratio(ours, gevent, cpu_ms), "<=", _CPU, remark)


def _healthy(result: Result, name: str) -> Iterator[Verdict]:
    runs = result.runs.get("slow-merchant", {}).get(name, [])
    if not runs:
        return
    done, published = (sum(map(len, each)) for each in zip(*((_came(one), _well(one)) for one in runs), strict=True))
    yield Verdict(
        f"{name}: orders of healthy merchants not done 5 s after the last publish, beside a slow one, in a run",
        *verdict.alone(runs, _not_done), "<=", 0, f"{done:,} of {published:,} done",
    )  # fmt: skip
    p95 = verdict.alone(runs, _p95_ms)
    remark = "some never came" if math.isinf(p95[0]) else ""
    text = f"{name}: their p95 from publish to the merchant's answer"
    yield Verdict(text, *p95, "<=", DEADLINE_MS, remark, " ms")


def _slow_claims(result: Result, name: str) -> Iterator[Verdict]:
    runs = result.runs.get("slow-merchant", {}).get(name, [])
    parked = [run["usage"]["parked_most"] for run in runs]
    if not runs:
        return
    text = f"{name}: calls at the slow merchant at once, at most"
    most = max(run["running_most"].get(merchant, 0) for run in runs for merchant in run["troubled"])
    share = MOST_FRAC * CONTENDERS[name].slots
    remark = f"its largest share of {CONTENDERS[name].slots} slots"
    yield Verdict(text, most, math.nan, math.nan, "<=", share, remark)
    if None not in parked:
        text = f"{name}: orders that the worker held without a slot, at most"
        remark = "task_parked_most; the rest waits in the broker"
        yield Verdict(text, max(parked), math.nan, math.nan, "<=", MOST_PARKED, remark)


def _nothing_lost(result: Result, name: str) -> Iterator[Verdict]:
    runs = [run for cells in result.runs.values() for run in cells.get(name, [])]
    lost, doubled = (sum(run[count] for run in runs) for count in ("lost", "effects_doubled"))
    text = f"{name}: orders lost when the worker is killed at the end of each run"
    yield Verdict(text, lost, math.nan, math.nan, "<=", 0, f"{len(runs)} run{'s' * (len(runs) > 1)}")
    yield Verdict(f"{name}: effects doubled", doubled, math.nan, math.nan, "<=", 0)


def _well(run: Json) -> list[float | None]:
    """When orders of healthy merchants were done, ms after their publish; None = not yet."""
    return [done_ms for merchant, _, _, done_ms in run["orders"] if merchant not in run["troubled"]]


def _came(run: Json) -> list[float]:
    return [done_ms for done_ms in _well(run) if done_ms is not None]


def _not_done(runs: Runs) -> float:
    return sum(len(_well(run)) - len(_came(run)) for run in runs) / len(runs)


def _p95_ms(runs: Runs) -> float:
    """What never came is later than anything."""
    return quantile(sorted(math.inf if one is None else one for run in runs for one in _well(run)), 0.95)


# --- The result as people read it.

Row = Mapping[str, Any]
_SLOW: Final = (
    ("contender", "contender"), ("merchants", "merchant_class"), ("published", "samples"), ("done", "done"),
    ("done %", "done_frac"), ("p50", "p50_ms"), ("p95", "p95_ms"), ("p95 of done", "p95_done_ms"),
    ("waiting at most", "waiting_max"), ("parked at most", "parked_max"), ("at a merchant at most", "running_max"),
    ("lost", "lost"),
)  # fmt: skip
_FULL: Final = (
    ("contender", "contender"), ("tasks/s", "done_per_s"), ("CPU of a core", "cpu_utilisation_frac"),
    ("CPU ms/task", "cpu_ms_per_job"), ("memory MB", "pss_mb"), ("MB/slot", "pss_mb_per_slot"),
    ("processes", "processes"), ("first task after s", "start_to_first_s"), ("lost", "lost"),
)  # fmt: skip
_ARTICLE: Final = (
    ("contender", "contender"), ("slots", "slots"), ("orders/h", "per_h"),
    ("CPU of a core", "cpu_utilisation_frac"), ("memory MB", "pss_mb"), ("MB/slot", "pss_mb_per_slot"),
    ("lost", "lost"),
)  # fmt: skip
_OFFERED: Final = (*_ARTICLE[:3], ("p95", "p95_ms"), *_ARTICLE[3:])
_NEVER: Final = "never"


def shown(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> str:
    """All tables and verdicts."""
    parts = ["CPU and memory are those of a worker with all its processes; latency is counted from the publish."]
    titles = {
        "slow-merchant": ("Ten merchants, one or two of them in trouble: done within 5 s of the last publish", _SLOW),
        "capacity": ("As many orders as each can do, 300 ms at the merchant and 3 ms of CPU", _FULL),
        "saturated": ("DoorDash's case, time divided by 10: a queue that never empties", _ARTICLE),
        "offered": ("DoorDash's case: the rates that the article printed", _OFFERED),
    }
    for stage, (title, shown_columns) in titles.items():
        if mine := [row for row in rows if row["stage"] == stage]:
            parts.append(f"{title}\n{columns(mine, shown_columns, _cell)}")
    if well := [row for row in rows if row["merchant_class"] == "healthy"]:
        parts.append(_by_publish(well))
    if any(row["stage"] in ("saturated", "offered") for row in rows):
        parts.append(_beside(rows))
        parts.append(
            "Printed figures that contradict each other\n" + "\n".join(f"- {one}" for one in article.cannot_hold())
        )
    if verdicts:
        parts.append(must_show(verdicts))
    return "\n\n".join(parts)


def _by_publish(rows: Sequence[Row]) -> str:
    """Where the cliff is: a line for each contender."""
    width = max(len(row["contender"]) for row in rows)
    lines = [
        f"{row['contender']:<{width}}  " + "  ".join(f"{one['done']}/{one['published']}" for one in row["by_publish"])
        for row in rows
    ]
    return "\n".join(["Orders of healthy merchants that were done, by the 5 s in which they were published", *lines])


def _beside(rows: Sequence[Row]) -> str:
    """What was printed, and what was measured of the same; then how far each worker goes."""
    lines = ["Printed, and measured"]
    for name, per_h, cpu in (
        ("prefork-4", article.BEFORE_PER_H, article.BEFORE_CPU_FRAC),
        ("gevent-200", article.AFTER_PER_H, article.AFTER_CPU_FRAC),
    ):
        lines += [
            f"{name}: {per_h:,.0f} orders/h at {'below ' * (name == 'prefork-4')}{100 * cpu:.0f} % of CPU; "
            f"measured {row['per_h']:,.0f} at {share(row['cpu_utilisation_frac'])}"
            for row in rows if row["contender"] == name and row["stage"] == "offered"
        ]  # fmt: skip
    most = {row["contender"]: row for row in rows if row["stage"] == "saturated"}
    four = most.get("prefork-4")
    for name, row in most.items():
        times = f", {factor(row['per_h'] / four['per_h'])} prefork-4's" if four and row is not four else ""
        memory = f"{amount(row['pss_mb_per_slot'])} MB a slot"
        lines.append(f"{name}: at most {row['per_h']:,.0f} orders/h{times}, in {memory}")
    return "\n".join(lines)


def _cell(name: str, value: object) -> str:
    if value is None and name.startswith("p") and name.endswith("_ms"):
        return _NEVER
    return f"{value:,.0f}" if name == "per_h" else cell(name, value)
