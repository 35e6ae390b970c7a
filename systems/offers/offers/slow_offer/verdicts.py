"""What must be shown of one slow offer: whom its trace names, how near the clocks are, how far the application's is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import factor, milliseconds
from offers import table
from offers.slow_offer.case import AGREES_MS, Case, case_of, rows_of
from offers.slow_offer.service import Recorded
from offers.slow_offer.staged import HEAVY, Plan, staged

__all__ = ["SLOW_MS", "measured", "verdicts_of"]

#: What the application is to read where its upstream takes 110 ms.
SLOW_MS: Final = 3_000.0


def measured(folder: Path) -> list[Verdict]:
    """Stages a slow offer, recorded in `folder`, and judges it. Blocks for some 20 s.

    Raises:
        StartFailed: a part did not come up.
        OSError: pricing did not answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with Recorded(folder) as service:
        staged(service, Plan())
    return verdicts_of(case_of(rows_of(service.recording), service.watched.passed))


def verdicts_of(case: Case) -> list[Verdict]:
    """Of the staged case."""
    heavy = f"GET {table.read().endpoints[HEAVY].path}"
    named = [row["culprit"] for row in case.culprits]
    place = 1 + named.index(heavy) if heavy in named else math.inf
    waited = ", ".join(f"{row['culprit']} {milliseconds(row['wait_ms'])}" for row in case.culprits[:2])
    return [
        _verdict("one slow offer: rank of the heavy route among its culprits", place, "<=", 1, waited),
        _verdict(
            "one slow offer: upstream's clock and the wire's differ by", abs(case.wire_ms - case.upstream_ms), "<=",
            AGREES_MS, f"{milliseconds(case.upstream_ms)} and {milliseconds(case.wire_ms)}", " ms",
        ),
        _verdict(
            f"one slow offer: what the application read for {milliseconds(case.upstream_ms)}", case.application_ms,
            ">=", SLOW_MS, factor(case.factor), " ms",
        ),
    ]  # fmt: skip


def _verdict(text: str, at: float, relation: str, target: float, remark: str, unit: str = "") -> Verdict:
    return Verdict(text, at, math.nan, math.nan, relation, target, remark, unit)
