"""What it costs to have work done elsewhere, where nobody has measured it: defaults, each with its source.

All on 2 cores of an AMD EPYC under CPython 3.11: read ratios rather than milliseconds, and give your own where you have
them. `greenlane lab placement` measures them on your machine for functions like yours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ARENA", "JSON", "NATIVE", "ORJSON", "POOL", "POOL_BUFFERS", "Factor", "Transport"]


@dataclass(frozen=True, slots=True)
class Transport:
    """A way of arguments to where the work is done, and of results back.

    Args:
        name: for answers.
        fixed_ms: a call, wall clock and mostly waiting.
        out_here, out_there, back_there, back_here: CPU, ms for each MB: of arguments where they are sent and where they
            arrive, of results likewise. What is spent here keeps the loop, or the GIL, which is the same to others.
        source: who measured it, on what.
    """

    name: str
    fixed_ms: float
    out_here: float
    out_there: float
    back_there: float
    back_here: float
    source: str

    def here_ms(self, out_mb: float, back_mb: float) -> tuple[float, float]:
        """CPU in the caller: before the call, and after it."""
        return self.out_here * out_mb, self.back_here * back_mb

    def there_ms(self, out_mb: float, back_mb: float) -> float:
        """CPU where the work is done."""
        return self.out_there * out_mb + self.back_there * back_mb


POOL: Final = Transport(
    "pickle of Python objects", 0.1, 4.0, 4.0, 4.0, 4.0,
    "ProcessPoolExecutor with 3,450 dicts of 50 fields, 4 MB as JSON: 33 ms one way, 62 both, half of it in the parent",
)  # fmt: skip
POOL_BUFFERS: Final = Transport(
    "pickle of arrays", 0.1, 0.35, 0.45, 0.45, 0.35,
    "ProcessPoolExecutor with float32 arrays of 4 and 12 MB: 2.6 and 12.9 ms one way, 0.4 of it in the parent",
)  # fmt: skip
ARENA: Final = Transport(
    "shared memory", 0.042, 0.06, 0.03, 0.03, 0.06,
    "Greenlane's workers: an empty call across cores 42 us, a copy of 1 MB there and its reading (docs/design/0011)",
)  # fmt: skip
JSON: Final = Transport(
    "json", 0.3, 11.3, 14.5, 11.3, 14.5,
    "json.dumps and json.loads of 3,000 items, 2.88 MB: 32.5 and 41.8 ms (systems/feed/advice.md)",
)  # fmt: skip
ORJSON: Final = Transport(
    "orjson", 0.3, 1.24, 4.17, 1.24, 4.17,
    "orjson of 3,000 items, 2.88 MB: 3.58 and 12 ms (systems/feed/advice.md)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Factor:
    """How many times less something takes, and who says so."""

    value: float
    source: str


#: The part that computes in native code on the same stored data.
NATIVE: Final = Factor(
    2.6,
    "ranking path of systems/feed with its features in Rust, items still JSON: 250 to 95 ms; packed records: 71 times",
)
