"""Core's number of requests at once, against its rule in plain Python and mean value analysis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from greenlane._native import HeavyRouteLane, WorkerConcurrency
from tests.reference.queueing import knee, one_cpu

_MS = 1_000_000
_SECOND = 1_000 * _MS
_MOST = 512


def limit(first: int = 8, *, least: int = 1, most: int = _MOST, gap_ns: int = 0) -> WorkerConcurrency:
    return WorkerConcurrency(busy=0.98, least=least, most=most, gap_ns=gap_ns, window_ns=_SECOND, first=first)


def modelled(cpu: float, delay: float, most: int) -> int:
    return next((n for n in range(1, most) if one_cpu(cpu, delay, n)[2] >= 0.98), most)


class Reference:
    """The rule, slow and obvious: every window is kept."""

    def __init__(self, first: int, least: int, most: int, gap_ns: int) -> None:
        self.least, self.most, self.gap_ns = least, most, gap_ns
        self.number = min(max(first, least), most)
        self.held = False
        self.idle: list[bool] = []
        self.windows: list[tuple[int, int, int]] = []  # requests, busy time, blocked time

    @staticmethod
    def share(span: Sequence[int]) -> float:
        worked, ran, starved = span
        return min(worked, ran + min(starved, 4 * ran)) / worked

    def make_room(self, span: Sequence[int], workers: int, in_progress: int) -> None:
        self.idle.append(not self.held and self.share(span) < 0.75)
        if self.idle[-2:] == [True, True]:
            self.number = max(self.number, min(self.most, math.ceil(2 * in_progress / workers)))

    def look(self, span: Sequence[int], jobs: int, blocked: int, wakes: int, late: int) -> None:
        """A look of a second or more: each closes a window."""
        worked, ran, starved = span
        self.held = max(0, late - starved) > 5 * _MS * wakes
        self.windows.append((jobs, worked if self.held else ran, blocked))
        ages = range(len(self.windows) - 1, -1, -1)
        sums = [sum(one[i] * 0.75**age for one, age in zip(self.windows, ages, strict=True)) for i in range(3)]
        model = modelled(sums[1], sums[2] + self.gap_ns * sums[0], self.most) if sums[1] else self.most
        wanted, next_number = max(model, self.least), self.number
        if wanted > self.number:
            next_number = min(wanted, 2 * self.number)
        elif self.held or self.share(span) >= 0.9:
            next_number = max(wanted, math.ceil(self.number / 2))
        if abs(next_number - self.number) > self.number / 8:
            self.number = next_number


_TIMES = st.tuples(st.just(_SECOND), st.integers(0, 2 * _SECOND), st.integers(0, _SECOND))
_LOOKS = st.tuples(
    st.just("look"),
    _TIMES,
    st.integers(0, 500),
    st.integers(0, 40 * _SECOND),
    st.integers(0, 50),
    st.integers(0, _SECOND),
)
_ROOMS = st.tuples(st.just("room"), _TIMES, st.integers(1, 8), st.integers(0, 200))


@given(st.integers(1, 100), st.integers(1, 5), st.integers(5, 80), st.lists(st.one_of(_LOOKS, _ROOMS), max_size=20))
def test_it_decides_as_the_rule_in_plain_python(
    first: int, least: int, most: int, steps: list[tuple[object, ...]]
) -> None:
    known = limit(first, least=least, most=most, gap_ns=_MS // 5)
    reference = Reference(first, least, most, _MS // 5)
    for what, span, *others in steps:
        if what == "look":
            jobs, blocked, wakes, late = others
            reference.look(span, *others)  # type: ignore[arg-type]
            assert known.look(span, jobs=jobs, blocked_ns=blocked, wakes=wakes, late_ns=late)  # type: ignore[arg-type]
        else:
            reference.make_room(span, *others)  # type: ignore[arg-type]
            known.make_room(span, *others)  # type: ignore[arg-type]
        # The sums are rounded in another order: beside a whole number the model may come out one higher or lower.
        assert abs(known.number() - reference.number) <= 1
        assert least <= known.number() <= most
        reference.number = known.number()


@given(cpu_ms=st.integers(1, 200), io_ms=st.integers(0, 2000), first=st.integers(1, _MOST))
def test_it_comes_to_what_the_model_says_from_anywhere(cpu_ms: int, io_ms: int, first: int) -> None:
    known = limit(first)
    wanted = modelled(cpu_ms, io_ms, _MOST)
    per_s = 1000 / cpu_ms
    for _ in range(12):  # it doubles at most
        jobs, blocked_ns = round(per_s), round(per_s * io_ms * _MS)
        assert known.look((_SECOND, _SECOND, 0), jobs=jobs, blocked_ns=blocked_ns, wakes=0, late_ns=0)
    assert abs(known.number() - wanted) * 8 <= known.number()
    assert known.number() >= 0.85 * min(_MOST, knee(cpu_ms, io_ms))
    word, cpu_ns, io_ns = known.why()
    assert word in ("model", "most")
    assert math.isclose(cpu_ns / max(1, io_ns), cpu_ms / max(1e-6, io_ms), rel_tol=0.01) or not io_ms


def test_requests_that_never_end_are_known_from_their_start() -> None:
    """Forty event streams; then the CPU is busy with something else."""
    known = limit(1)
    for _ in range(10):
        known.make_room((100 * _MS, 1 * _MS, 0), 1, min(40, known.number()))
    assert known.number() == 80, "twice of those that are there"
    for _ in range(9):
        known.look((_SECOND, _SECOND, 0), jobs=0, blocked_ns=40 * _SECOND, wakes=0, late_ns=0)
    assert 45 <= known.number() <= 60


def test_a_route_apart_comes_back() -> None:
    known = HeavyRouteLane(over_ns=20 * _MS, learn_after=10)
    looks = [known.look([("GET /hog", 10, 300 * _MS), ("GET /bike", 10, 10 * _MS)]) for _ in range(3)]
    assert looks == [False, True, False]
    assert known.routes() == [("GET /hog", 30 * _MS)]
    assert any(known.look([("GET /hog", 100, 100 * _MS)]) for _ in range(10))
    assert known.routes() == []
