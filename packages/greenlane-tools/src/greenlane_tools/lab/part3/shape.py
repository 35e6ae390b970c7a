"""What a request of the benchmark does: CPU bursts with network waits between them."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane._native import closed_bounds, closed_means

__all__ = ["Shape"]


@dataclass(frozen=True)
class Shape:
    """One kind of request: C ms of CPU cut into `calls` + 1 equal bursts, with `calls` waits of S/`calls` ms between.

    With one call this is half the CPU, the network, the other half; with none the CPU in one piece.
    """

    # CPU of a request, all its bursts together, ms; 0 = none.
    cpu_ms: float
    # Network of a request, all its calls together, ms; 0 = each call only yields.
    network_ms: float
    # Network calls; 0 = the network is left out.
    calls: int = 1
    # All calls at once, then all the CPU in one burst, instead of one after the other.
    together: bool = False

    def bursts_ms(self) -> list[float]:
        """CPU bursts in order, one more than `waits_ms`."""
        if self.together:
            return [0.0, self.cpu_ms]
        return [self.cpu_ms / (self.calls + 1)] * (self.calls + 1)

    def waits_ms(self) -> list[float]:
        """What the handler waits between its bursts; calls at once count as one wait."""
        if self.together:
            return [self.network_ms / max(self.calls, 1)]
        return [self.network_ms / self.calls] * self.calls if self.calls else []

    def waited_ms(self) -> float:
        """Network that a request waits for, ms: `network_ms`, unless its calls are made at once."""
        return sum(self.waits_ms())

    def knee(self) -> float:
        """(C+S)/C: the number of requests in progress that fill the CPU if none ever waits; inf without CPU work.

        It is also the speed-up that nothing exceeds: 1/(1-p) with p = S/(C+S), Amdahl's law.
        """
        return closed_bounds(self.cpu_ms, self.waited_ms(), 1)[0]

    def most_per_s(self, places: int) -> float:
        """The throughput that nothing exceeds: min(N / (C+S), 1/C); `places` is N >= 1; inf without any work."""
        return 1000 * closed_bounds(self.cpu_ms, self.waited_ms(), places)[1]

    def least_ms(self, places: int) -> float:
        """The mean latency that nothing goes below: max(C+S, N·C)."""
        return closed_bounds(self.cpu_ms, self.waited_ms(), places)[2]

    def means(self, places: int) -> tuple[float, float]:
        """Mean throughput (per s) and latency (ms) with exponential CPU bursts: exact mean value analysis."""
        per_ms, latency_ms, _ = closed_means(self.cpu_ms, self.waited_ms(), places)
        return 1000 * per_ms, latency_ms

    def said(self) -> str:
        """As the article heads its runs: "5ms CPU/55ms Network"."""
        calls = f" in {self.calls} calls" if self.calls != 1 else ""
        once = " at once" if self.together else ""
        return f"{self.cpu_ms:g}ms CPU/{self.network_ms:g}ms Network{calls}{once}"
