"""The burst histogram, slow and obvious: the twin of `crates/policy/src/burst.rs`.

Bucket edges are a list, weights are a list, and everything else is computed from them when it is asked for.
"""

import math

# Two an octave from 62.5 us; odd edges lie at 181/128, about the root of two; the last bucket has no edge.
EDGES_NS = [(62_500 << index // 2) * (181 if index % 2 else 128) // 128 for index in range(33)]
SAMPLE = 256
WINDOW = 64
LONGEST_NS = 3_600_000_000_000


class BurstSketch:
    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_NS) + 1)
        self.weighted_ns = 0
        self.seen = 0

    def update(self, burst_ns: int) -> None:
        burst_ns = min(burst_ns, LONGEST_NS)
        fitting = [index for index, edge_ns in enumerate(EDGES_NS) if burst_ns <= edge_ns]
        self.counts[min(fitting, default=len(EDGES_NS))] += SAMPLE
        self.weighted_ns += burst_ns * SAMPLE
        self.seen += 1
        if sum(self.counts) >= WINDOW * SAMPLE:
            self.forget(1)

    def forget(self, halvings: int) -> None:
        before = max(1, sum(self.counts))
        self.counts = [count // 2**halvings for count in self.counts]
        self.weighted_ns = self.weighted_ns * sum(self.counts) // before

    def quantile_ns(self, quantile: float) -> int:
        wanted = math.ceil(sum(self.counts) * quantile)
        for index in range(len(self.counts)):
            if sum(self.counts) and sum(self.counts[: index + 1]) >= wanted:
                return EDGES_NS[min(index, len(EDGES_NS) - 1)]
        return 0

    def mean_ns(self) -> int:
        return self.weighted_ns // max(1, sum(self.counts))

    def mean_over_ns(self, limit_ns: int) -> int:
        under_ns = sum(
            count * (edge_ns // 8 * 7)
            for count, edge_ns in zip(self.counts, EDGES_NS, strict=False)
            if edge_ns <= limit_ns
        )
        over = sum(self.counts) - sum(
            count for count, edge_ns in zip(self.counts, EDGES_NS, strict=False) if edge_ns <= limit_ns
        )
        return max(limit_ns, max(0, self.weighted_ns - under_ns) // over) if over else 0

    def samples(self) -> int:
        return self.seen

    def weights(self) -> list[int]:
        return list(self.counts)
