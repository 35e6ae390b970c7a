"""What is learned of a placed function, slow and obvious: the twin of `crates/policy/src/placed.rs`."""

from tests.reference.burst_sketch import BurstSketch

SURPRISE = 4
AWAY = 32
CHANGED_AFTER = 32


class CallProfile:
    def __init__(self, light_ns: int, quantile: float, margin: float, learn_after: int) -> None:
        self.light_ns, self.quantile, self.margin, self.learn_after = light_ns, quantile, margin, learn_after
        self.sketch = BurstSketch()
        self.contradicted = 0
        self.away = 0
        self.share = 0

    def over(self) -> bool:
        return self.sketch.quantile_ns(self.quantile) * self.margin > self.light_ns

    def update(self, took_ns: int, computed: bool) -> None:
        target = 1024 if computed else 0
        # Division towards zero, as Rust's.
        self.share = target if self.sketch.samples() == 0 else self.share + int((target - self.share) / 8)
        over = self.over()
        self.sketch.update(took_ns)
        self.contradicted = self.contradicted + 1 if (took_ns > self.light_ns) != over else 0
        if self.contradicted >= CHANGED_AFTER:
            self.contradicted = 0
            self.sketch.forget(3)
        self.away = AWAY if took_ns > SURPRISE * self.light_ns else max(self.away - 1, 0)

    def weight(self) -> str:
        if self.sketch.samples() < self.learn_after:
            return "unknown"
        return "heavy" if self.over() or self.away else "light"

    def computes(self) -> bool:
        return self.share >= 768

    def expected_ns(self) -> int:
        return self.sketch.mean_ns()

    def samples(self) -> int:
        return self.sketch.samples()
