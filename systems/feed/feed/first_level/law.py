"""How long a model's answer takes, and how often it fails: the law that a model service holds to, changed live."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

_Z99: Final = 2.3263478740408408


@dataclass(frozen=True)
class Law:
    """Lognormal, by the two numbers that people know of a service.

    Args:
        median_ms: half of the answers take less; 0 = no delay at all.
        p99_ms: one of a hundred takes more; at least median_ms.
        fail_frac: share of requests answered 500, after their delay.
    """

    median_ms: float = 15.0
    p99_ms: float = 45.0
    fail_frac: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.median_ms <= self.p99_ms:
            rule = "0 <= median_ms <= p99_ms"
            raise ValueError(f"setting a law: median_ms={self.median_ms!r}, p99_ms={self.p99_ms!r}, expected {rule}")
        if not 0 <= self.fail_frac <= 1:
            raise ValueError(f"setting a law: fail_frac={self.fail_frac!r}, expected 0 to 1")

    def delay_s(self, source: random.Random) -> float:
        """One draw."""
        if self.median_ms == 0:
            return 0.0
        spread = math.log(self.p99_ms / self.median_ms) / _Z99
        return self.median_ms / 1000 * math.exp(source.gauss(0, spread))

    def fails(self, source: random.Random) -> bool:
        """One draw."""
        return source.random() < self.fail_frac
