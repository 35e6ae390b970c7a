"""Histograms that only grow, as they were in the last seconds: what processes answer, look by look."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

__all__ = ["LAG", "LATENCY", "Recent", "quantile_ms"]

#: How many buckets double the time: of `by_lag` and `by_latency`.
LAG: Final = 1
LATENCY: Final = 4


class Recent:
    """One histogram over the last `span_s` seconds; before this long has passed, since the first look."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._looks: deque[tuple[float, Counter[int]]] = deque()

    def take(self, counts: Mapping[int, int], at_s: float) -> Counter[int]:
        """What came since then; all of it at the first look, and after a restart."""
        now = Counter(counts)
        while len(self._looks) > 1 and self._looks[1][0] <= at_s - self._span_s:
            self._looks.popleft()
        before = self._looks[0][1] if self._looks else Counter[int]()
        self._looks.append((at_s, now))
        if any(now[index] < count for index, count in before.items()):
            self._looks = deque([(at_s, now)])
            return now
        return now - before


def quantile_ms(counts: Mapping[int, int], frac: float, per_doubling: int) -> float | None:
    """Upper bound of the bucket that holds the quantile; None = nothing was counted."""
    wanted, seen = frac * sum(counts.values()), 0
    for index in sorted(counts):
        seen += counts[index]
        if seen >= wanted and counts[index]:
            return round(float(2 ** (index / per_doubling)) / 1000, 3)
    return None
