"""Student's t distribution for whole degrees of freedom: what few repetitions call for instead of the normal one.

Source: M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4: finite sums. A
library of statistics would be a dependency of 30 MB for these twenty lines.
"""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = ["beyond", "critical"]


def beyond(t: float, degrees: int) -> float:
    """Probability of a value further from 0 than `t`, on either side.

    Args:
        degrees: of freedom, >= 1.
    """
    if math.isinf(t):
        return 0.0
    angle = math.atan(abs(t) / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for step in range(2 + odd, degrees + 1, 2):
        total += term
        term *= cosine**2 * (step - 1) / step
    inside = (angle + sine * total) * 2 / math.pi if odd else sine * total
    return min(1.0, max(0.0, 1 - inside))


@lru_cache(maxsize=256)
def critical(degrees: int, outside: float = 0.05) -> float:
    """The value beyond which, on both sides together, lies the share `outside`."""
    low, high = 0.0, 1.0
    while beyond(high, degrees) > outside:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, degrees) > outside else (low, middle)
    return high
