"""What must be shown, against what was measured in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane.page.quantities import amount
from pos.contenders import OURS

from .rows import DEADLINE_MS, by
from .run import Json

_TIMES: Final = 16.0
_CPU: Final = 1.15


@dataclass(frozen=True)
class Verdict:
    """One claim.

    Args:
        text: what is compared, in words.
        measured: None = later than was waited for.
        relation: "<=" or ">=".
        target: what it must reach.
    """

    text: str
    measured: float | None
    relation: str
    target: float

    @property
    def holds(self) -> bool:
        """Whether the measured value reaches the target."""
        if self.measured is None:
            return False
        return self.measured <= self.target if self.relation == "<=" else self.measured >= self.target

    def said(self) -> str:
        """One line."""
        sign = "≤" if self.relation == "<=" else "≥"
        measured = "never" if self.measured is None else amount(self.measured)
        return f"{self.text}: {measured} {sign} {amount(self.target)}: {'holds' if self.holds else 'FAILS'}"

    def row(self) -> Json:
        """For `--json`."""
        return {**vars(self), "holds": self.holds}


def verdicts_of(rows: Sequence[Json]) -> list[Verdict]:
    """Of Greenlane's workers; none where none was measured."""
    ours = dict.fromkeys(row["contender"] for row in rows if row["contender"].startswith(OURS))
    return [verdict for name in ours for of in (_capacity, _slow, _nothing_lost) for verdict in of(rows, name)]


def _capacity(rows: Sequence[Json], name: str) -> Iterator[Verdict]:
    ours, four, gevent = (by(rows, stage="capacity", contender=one) for one in (name, "prefork-4", "gevent-200"))
    if ours and four:
        times = ours["done_per_s"] / four["done_per_s"]
        yield Verdict(f"{name}: tasks per second ÷ those of the whole prefork-4 worker", times, ">=", _TIMES)
    if ours and gevent:
        ratio = ours["cpu_ms_per_job"] / gevent["cpu_ms_per_job"]
        yield Verdict(f"{name}: CPU per task ÷ gevent-200's", ratio, "<=", _CPU)


def _slow(rows: Sequence[Json], name: str) -> Iterator[Verdict]:
    well = by(rows, stage="slow-merchant", contender=name, merchant_class="healthy")
    if well:
        yield Verdict(
            f"{name}: orders of healthy merchants done, beside a slow one", well["done"], ">=", well["samples"]
        )
        yield Verdict(f"{name}: their p95 from publish to the merchant's answer, ms", well["p95_ms"], "<=", DEADLINE_MS)


def _nothing_lost(rows: Sequence[Json], name: str) -> Iterator[Verdict]:
    mine = [row for row in rows if row["contender"] == name]
    text = f"{name}: orders lost when the worker is killed at the end of each run"
    yield Verdict(text, max(row["lost"] for row in mine), "<=", 0)
    yield Verdict(f"{name}: effects doubled", max(row["effects_doubled"] for row in mine), "<=", 0)
