"""What must be shown, against what was measured in the same run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from greenlane.lab.verdict import Verdict
from pos.contenders import OURS

from .rows import DEADLINE_MS, by
from .run import Json

_TIMES: Final = 16.0
_CPU: Final = 1.15


def verdicts_of(rows: Sequence[Json]) -> list[Verdict]:
    """Of Greenlane's workers; none where none was measured."""
    ours = dict.fromkeys(row["contender"] for row in rows if row["contender"].startswith(OURS))
    return [verdict for name in ours for of in (_capacity, _slow, _nothing_lost) for verdict in of(rows, name)]


def _capacity(rows: Sequence[Json], name: str) -> Iterator[Verdict]:
    ours, four, gevent = (by(rows, stage="capacity", contender=one) for one in (name, "prefork-4", "gevent-200"))
    if ours and four:
        times = ours["done_per_s"] / four["done_per_s"]
        yield _verdict(f"{name}: tasks per second ÷ those of the whole prefork-4 worker", times, ">=", _TIMES)
    if ours and gevent:
        ratio = ours["cpu_ms_per_job"] / gevent["cpu_ms_per_job"]
        yield _verdict(f"{name}: CPU per task ÷ gevent-200's", ratio, "<=", _CPU)


def _slow(rows: Sequence[Json], name: str) -> Iterator[Verdict]:
    well = by(rows, stage="slow-merchant", contender=name, merchant_class="healthy")
    if well:
        text = f"{name}: orders of healthy merchants done, beside a slow one"
        yield _verdict(text, well["done"], ">=", well["samples"])
        text = f"{name}: their p95 from publish to the merchant's answer"
        yield _verdict(text, well["p95_ms"], "<=", DEADLINE_MS, " ms")


def _nothing_lost(rows: Sequence[Json], name: str) -> Iterator[Verdict]:
    mine = [row for row in rows if row["contender"] == name]
    text = f"{name}: orders lost when the worker is killed at the end of each run"
    yield _verdict(text, max(row["lost"] for row in mine), "<=", 0)
    yield _verdict(f"{name}: effects doubled", max(row["effects_doubled"] for row in mine), "<=", 0)


def _verdict(text: str, measured: float | None, relation: str, target: float, unit: str = "") -> Verdict:
    """Of all repetitions together; how sure it is stands with the rows. None = later than was waited for."""
    remark = "some never came" if measured is None else ""
    at = math.inf if measured is None else measured
    return Verdict(text, at, math.nan, math.nan, relation, target, remark, unit)
