"""Who is refused for coming too late, slow and obvious: the twin of `crates/policy/src/shed.rs`.

Every request that was picked up is kept, and who has not waited is looked for again each time.
"""

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Shed:
    waited_ns: int
    stands_ns: int
    stands_count: int
    frac: Fraction
    most: Fraction
    picked: list[tuple[int, bool]] = field(default_factory=list)  # when, and whether it had waited
    times: list[int] = field(default_factory=list)

    def refuses(self, arrival_ns: int, due_ns: int, now_ns: int) -> bool:
        waited = now_ns - arrival_ns >= self.waited_ns
        self.picked.append((now_ns, waited))
        if not waited or not due_ns:
            return False
        if due_ns <= now_ns:
            return True
        expected_ns = min(self.p99_ns(), self.most * (due_ns - arrival_ns))
        return self.stands(now_ns) and due_ns - now_ns < expected_ns

    def served(self, took_ns: int, span_ns: int) -> None:
        if not span_ns or took_ns < span_ns:
            self.times.append(took_ns)

    def p99_ns(self) -> int:
        judged = self.times[: len(self.times) // 16 * 16][-256:]
        if not judged:
            return 0
        return sorted(judged)[min(int(len(judged) * self.frac), len(judged) - 1)]

    def stands(self, now_ns: int) -> bool:
        calm = [number for number, (_, waited) in enumerate(self.picked) if not waited]
        since = self.picked[calm[-1] + 1 :] if calm else self.picked
        calm_ns = self.picked[calm[-1]][0] if calm else 0
        return len(since) >= self.stands_count and now_ns - calm_ns >= self.stands_ns
