"""What is compared of an endpoint: percentiles, shares, throughput, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from greenlane_tools.lab.differences import Scale

__all__ = ["CPU", "FAILED", "PERCENTILES", "SMALLEST_SHARE", "THROUGHPUT", "WITHIN_DEADLINE", "Quantity"]

#: Shares that differ by less are the same.
SMALLEST_SHARE: Final = 0.01


@dataclass(frozen=True)
class Quantity:
    """One number of an endpoint."""

    # Its field in rows.
    name: str
    # In tables.
    title: str
    scale: Scale
    lower_is_better: bool
    # Of a percentile its share; 0 = it is none.
    share: float = 0.0
    # Samples that each side must have.
    least_samples: int = 20


def _percentile(share: float, title: str, least_samples: int) -> Quantity:
    return Quantity(f"{title.replace('.', '')}_ms", title, Scale.RATIO, True, share, least_samples)


#: One needs so many samples that it is not the slowest one alone.
PERCENTILES: Final = (
    _percentile(0.5, "p50", 20), _percentile(0.95, "p95", 100), _percentile(0.99, "p99", 500),
    _percentile(0.999, "p99.9", 10_000),
)  # fmt: skip
WITHIN_DEADLINE: Final = Quantity("within_deadline_frac", "within deadline", Scale.DIFFERENCE, lower_is_better=False)
FAILED: Final = Quantity("failed_frac", "failed", Scale.DIFFERENCE, lower_is_better=True)
THROUGHPUT: Final = Quantity("done_per_s", "done/s", Scale.RATIO, lower_is_better=False)
#: Of all endpoints together, of the contender's processes.
CPU: Final = Quantity("cpu_ms_per_job", "CPU per job", Scale.RATIO, lower_is_better=True)
