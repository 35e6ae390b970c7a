"""The sentence says what was seen: also when Greenlane loses, is not there, or cannot be told apart."""

from __future__ import annotations

from tests.lab.made import PRICING, run, sample

from greenlane_tools.lab.pricing.conclusion import conclusion
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import pooled


def cell(contender: str, in_time: int, late: int) -> Run:
    bikes = [sample(310.0)] * in_time + [sample(900.0)] * late
    return run([*bikes, sample(100.0, "quote")], contender)


def said(*runs: Run) -> str:
    return conclusion(pooled(PRICING, runs), "bikes", "quote", 2)


def test_a_win_names_the_rival_and_both_shares() -> None:
    text = said(cell("gevent", 40, 60), cell("greenlane", 100, 0))
    assert "100.0 % [96.3-100.0] of bikes were there within 500 ms with greenlane" in text
    assert "more than gevent 40.0 %" in text


def test_a_loss_is_said_as_plainly() -> None:
    text = said(cell("gevent", 100, 0), cell("greenlane", 40, 60))
    assert "40.0 %" in text and "fewer than gevent 100.0 %" in text and "more than" not in text


def test_overlapping_intervals_are_not_told_apart() -> None:
    assert "not told apart from dedicated 100.0 %" in said(cell("dedicated", 100, 0), cell("greenlane", 99, 1))


def test_the_heavy_endpoint_is_compared_with_the_best_rival() -> None:
    text = said(cell("gevent", 9, 1), cell("greenlane", 10, 0))
    assert "quote p99 100 ms against 100 at best elsewhere (gevent)" in text


def test_without_greenlane_the_contenders_are_listed() -> None:
    text = said(cell("gevent", 40, 60), cell("dedicated", 100, 0))
    assert text.index("dedicated 100.0 %") < text.index("gevent 40.0 %") and "greenlane" not in text


def test_the_uncertainty_is_in_the_sentence() -> None:
    text = said(cell("greenlane", 10, 0))
    assert "Wilson" in text and "2 interleaved repetitions" in text and "10 bikes a contender" in text


def test_nothing_measured_is_no_error() -> None:
    assert conclusion([], "bikes", None, 1) == "Nothing was measured."
