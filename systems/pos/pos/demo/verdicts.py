"""What must be shown, against what was measured in the same run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from greenlane_tools.lab import verdict
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import amount
from pos.contenders import CONTENDERS, OURS
from pos.merchants.names import SLOW

from .rows import DEADLINE_MS, cpu_ms, done_per_s
from .run import Json, Result

Runs = Sequence[Json]
_TIMES: Final = 16.0
_CPU: Final = 1.15
#: What `greenlane work` is started with: the settings task_parked_most and task_most_frac.
MOST_PARKED: Final = 1_000
MOST_FRAC: Final = 0.5


def verdicts_of(result: Result) -> list[Verdict]:
    """Of Greenlane's workers; none where none was measured, and none of a stage that was not."""
    ours = dict.fromkeys(name for cells in result.runs.values() for name in cells if name.startswith(OURS))
    return [one for name in ours for of in (_capacity, _healthy, _slow, _nothing_lost) for one in of(result, name)]


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


def _slow(result: Result, name: str) -> Iterator[Verdict]:
    runs = result.runs.get("slow-merchant", {}).get(name, [])
    parked = [run["usage"]["parked_most"] for run in runs]
    if not runs:
        return
    text = f"{name}: calls at the slow merchant at once, at most"
    most = max(run["running_most"].get(SLOW, 0) for run in runs)
    share = MOST_FRAC * CONTENDERS[name].slots
    remark = f"its largest share of {CONTENDERS[name].slots} slots"
    yield Verdict(text, most, math.nan, math.nan, "<=", share, remark)
    if None not in parked:
        text = f"{name}: orders that the worker held without a slot, at most"
        remark = "task_parked_most; what is beyond waits in the broker"
        yield Verdict(text, max(parked), math.nan, math.nan, "<=", MOST_PARKED, remark)


def _nothing_lost(result: Result, name: str) -> Iterator[Verdict]:
    runs = [run for cells in result.runs.values() for run in cells.get(name, [])]
    lost, doubled = (sum(run[count] for run in runs) for count in ("lost", "effects_doubled"))
    text = f"{name}: orders lost when the worker is killed at the end of each run"
    yield Verdict(text, lost, math.nan, math.nan, "<=", 0, f"{len(runs)} run{'s' * (len(runs) > 1)}")
    yield Verdict(f"{name}: effects doubled", doubled, math.nan, math.nan, "<=", 0)


def _well(run: Json) -> list[float | None]:
    """When orders of healthy merchants were done, ms after their publish; None = not yet."""
    return [done_ms for merchant, _, _, done_ms in run["orders"] if merchant != SLOW]


def _came(run: Json) -> list[float]:
    return [done_ms for done_ms in _well(run) if done_ms is not None]


def _not_done(runs: Runs) -> float:
    return sum(len(_well(run)) - len(_came(run)) for run in runs) / len(runs)


def _p95_ms(runs: Runs) -> float:
    """What never came is later than anything."""
    return quantile(sorted(math.inf if one is None else one for run in runs for one in _well(run)), 0.95)
