"""One switch, measured: a line of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import amount

from .measure import Cost

# Less than this is no difference that anybody should work for.
_WORTH: Final = 1.05


@dataclass(frozen=True)
class Row:
    """What a switch costs beside what it is held against.

    Args:
        topic: of the table: json, validation, formats, compression, collector.
        stage: what is done, for one request.
        contender: the switch.
        against: what it is held against; its own name in that one's row.
        cpu_ms_per_job: CPU of both ends, median.
        wall_ms: median.
        ratio: how many times less than `against` it takes, by `decided_by`; median of pairs.
        ratio_low, ratio_high: quartiles of the pairs.
        decided_by: cpu_ms or wall_ms.
        bytes: of what is stored or sent; 0 = nothing is.
        note: what else is to be known of it.
    """

    topic: str
    stage: str
    contender: str
    against: str
    cpu_ms_per_job: float
    wall_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    decided_by: str
    bytes: int = 0
    note: str = ""

    @property
    def is_worth_it(self) -> bool:
        """Its pairs agree that it takes less."""
        return self.ratio_low > _WORTH

    @property
    def advice(self) -> str:
        """What follows from the ratio."""
        said = f"; {self.note}" if self.note else ""
        if self.contender == self.against:
            return f"what the others are held against{said}"
        if self.is_worth_it:
            return f"worth it: {amount(self.ratio)} times less{said}"
        if self.ratio_high < 1 / _WORTH:
            return f"no: {amount(1 / max(self.ratio, 1e-9))} times more{said}"
        return f"makes no difference here{said}"


def rows(
    topic: str,
    stage: str,
    found: Mapping[str, Cost],
    *,
    clock: str = "cpu_ms",
    sizes: Mapping[str, int] | None = None,
    notes: Mapping[str, str] | None = None,
) -> list[Row]:
    """A row for each; the first one is what all are held against."""
    against = next(iter(found))
    made = []
    for name, cost in found.items():
        ratio, low, high = cost.ratio_to(found[against], clock)
        made.append(
            Row(
                topic, stage, name, against,
                round(cost.median("cpu_ms"), 4), round(cost.median("wall_ms"), 4),
                round(ratio, 4), round(low, 4), round(high, 4), clock,
                bytes=(sizes or {}).get(name, 0), note=(notes or {}).get(name, ""),
            )
        )  # fmt: skip
    return made
