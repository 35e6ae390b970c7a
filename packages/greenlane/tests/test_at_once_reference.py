"""Core's number of requests at once, against mean value analysis as it is written elsewhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from greenlane._native import Apart, AtOnce
from tests.reference.queueing import knee
from tests.reference.theory import one_cpu

_MS = 1_000_000
_SECOND = 1_000 * _MS
_MOST = 512


def limit(first: int = 8) -> AtOnce:
    return AtOnce(busy=0.98, least=1, most=_MOST, gap_ns=0, window_ns=_SECOND, window_jobs=20, first=first)


def modelled(cpu_ms: float, io_ms: float) -> int:
    numbers = range(1, _MOST + 1)
    return next((n for n in numbers if one_cpu(cpu_ms, io_ms, n)[2] >= 0.98), _MOST)


@given(cpu_ms=st.integers(1, 200), io_ms=st.integers(0, 2000), first=st.integers(1, _MOST))
def test_it_comes_to_what_the_model_says_from_anywhere(cpu_ms: int, io_ms: int, first: int) -> None:
    known = limit(first)
    wanted = modelled(cpu_ms, io_ms)
    for _ in range(12):  # it doubles at most
        assert known.look(_SECOND, 0, [("GET /", 50, 50 * cpu_ms * _MS, 50 * io_ms * _MS)])
    assert abs(known.number() - wanted) * 8 <= known.number()
    assert known.number() >= 0.85 * min(_MOST, knee(cpu_ms, io_ms))
    word, cpu_ns, io_ns, _ = known.why()
    assert word in ("model", "most")
    assert (abs(cpu_ns - cpu_ms * _MS) <= 1, abs(io_ns - io_ms * _MS) <= 1) == (True, True)


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 64))
def test_it_stays_in_its_bounds_whatever_comes(held: list[int], first: int) -> None:
    known = AtOnce(busy=0.98, least=3, most=40, gap_ns=_MS, window_ns=_SECOND, window_jobs=1, first=first)
    for number, requests in enumerate(held):
        rows = [(f"GET /{number % 3}", requests, requests * _MS, requests * number * _MS)]
        known.look(_SECOND, requests * _SECOND, rows)
        assert 3 <= known.number() <= 40


def test_the_backstop_says_so() -> None:
    """A loop that is blocked 20 ms by each request: I/O by its clocks, and nobody else can use it."""
    known = limit()
    for _ in range(20):
        known.look(_SECOND, known.number() * _SECOND, [("GET /", 50, 5 * _MS, 995 * _MS)])
    word, _, _, stretch = known.why()
    assert word == "backstop"
    assert known.number() <= 3
    assert stretch <= 3


def test_a_route_apart_comes_back() -> None:
    known = Apart(over_ns=20 * _MS, learn_after=10)
    looks = [known.look([("GET /hog", 10, 300 * _MS, 0), ("GET /bike", 10, 10 * _MS, 0)]) for _ in range(3)]
    assert looks == [False, True, False]
    assert known.routes() == [("GET /hog", 30 * _MS)]
    assert any(known.look([("GET /hog", 100, 100 * _MS, 0)]) for _ in range(10))
    assert known.routes() == []
