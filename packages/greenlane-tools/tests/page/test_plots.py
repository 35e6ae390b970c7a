"""Plots say what they were given: where values lie, what is expected, nothing beyond the frame."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest

from greenlane_tools.page.charts.curves import Curve, Mark, Point, Scale, curves
from greenlane_tools.page.charts.histogram import histogram
from greenlane_tools.page.frame import apart, tone

X, Y = Scale("threads"), Scale("speed-up")


def places(text: str, style: str) -> list[tuple[float, float]]:
    """All corners of the lines of a class."""
    drawn = re.findall(rf'<path class="{style}" d="([^"]+)"', text)
    return [(float(x), float(y)) for d in drawn for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", d)]


def names(text: str) -> dict[str, float]:
    found = re.findall(r'<text class="name[^"]*" x="[\d.]+" y="([\d.]+)">([^<]+)', text)
    return {said: float(y) for y, said in found}


def test_a_line_lies_where_its_values_are() -> None:
    found = places(curves([Curve("a", [Point(0, 0), Point(5, 50), Point(10, 100)])], "t", X, Y), "trace s0")
    (x0, y0), (x1, y1), (x2, y2) = found
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y0 - y1 == pytest.approx(y1 - y2, abs=0.2) and y2 < y1


def test_equal_factors_take_equal_room_on_logarithmic_axes() -> None:
    line = Curve("a", [Point(1, 1), Point(10, 10), Point(100, 100)])
    found = places(curves([line], "t", Scale("x", log=True), Scale("y", log=True)), "trace s0")
    (x0, y0), (x1, y1), (x2, y2) = found
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y0 - y1 == pytest.approx(y1 - y2, abs=0.2)


def test_what_is_expected_is_dashed_has_no_points_and_says_so() -> None:
    expected = Curve("theory", [Point(1, 1), Point(2, 2)], reference=True)
    text = curves([Curve("a", [Point(1, 1), Point(2, 2)]), expected], "t", X, Y)
    assert len(places(text, "reference soft d0")) == 2
    assert text.count('class="spot') == 2 and "theory (expected)" in text


def test_a_reference_neither_flattens_what_was_measured_nor_leaves_the_frame() -> None:
    bound = Curve("bound", [Point(1, 1), Point(100, 1000)], reference=True)
    text = curves([Curve("a", [Point(1, 1), Point(100, 10)]), bound], "t", X, Y)
    measured, expected = places(text, "trace s0"), places(text, "reference soft d0")
    height = measured[0][1] - measured[-1][1]
    assert height > 150
    assert min(y for _, y in expected) >= 29 and max(x for x, _ in expected) < measured[-1][0]


def test_a_value_that_is_missing_interrupts_the_line() -> None:
    text = curves([Curve("a", [Point(1, 1), Point(2, 2), Point(3, math.nan), Point(4, 4), Point(5, 5)])], "t", X, Y)
    (d,) = re.findall(r'<path class="trace s0" d="([^"]+)"', text)
    assert d.count("M") == 2 and "nan" not in text


def test_intervals_are_drawn_and_said() -> None:
    text = curves([Curve("a", [Point(1, 10, 8, 14), Point(2, 20, 18, 24)])], "t", X, Y)
    assert text.count('class="error s0"') == 6
    assert "a: 10 (8 to 14) at 1" in text
    band = curves([Curve("a", [Point(1, 10, 8, 14), Point(2, 20, 18, 24)], band=True)], "t", X, Y)
    assert len(places(band, "band s0")) == 4 and "error" not in band


def test_a_description_says_the_ends_of_each_line() -> None:
    text = curves([Curve("gevent", [Point(1, 10), Point(64, 90)])], "t", X, Y)
    assert "<desc>speed-up over threads. gevent: 10 at 1, 90 at 64.</desc>" in text


def test_marks_that_would_meet_stand_in_rows_and_marks_beyond_are_left_out() -> None:
    marks = [Mark(5, "the first fault"), Mark(5.2, "the second fault"), Mark(500, "never")]
    text = curves([Curve("a", [Point(n, n) for n in range(11)])], "t", X, Y, upright=marks)
    heights = {said: float(y) for y, said in re.findall(r'y="([\d.]+)"[^>]*>(the \w+ fault)<', text)}
    assert heights["the first fault"] != heights["the second fault"] and "never" not in text


def test_names_keep_apart_from_each_other_and_from_the_labels_of_marks() -> None:
    series = [Curve(f"contender {n}", [Point(1, 1), Point(2, 5 + n / 100)]) for n in range(15)]
    text = curves(series, "t", X, Y, level=[Mark(5.05, "limit")], height=160)
    found = sorted(names(text).values())
    assert len(found) == 15 and all(after - before >= 13.9 for before, after in pairwise(found))
    height = float(re.search(r'viewBox="0 0 \d+ (\d+)"', text)[1])  # type: ignore[index]
    assert found[-1] < height


def test_labels_keep_their_order_and_stay_within_bounds() -> None:
    assert [after - before for before, after in pairwise(sorted(apart([10, 10, 10], 0, 100, 14)))] == [14, 14]
    found = apart([95, 99, 97], 0, 100, 14)
    assert found[0] < found[2] < found[1] == 99
    assert min(apart([1.0] * 9, 0, 100, 14)) >= 0


def test_what_is_ours_has_its_colour_alone() -> None:
    found = tone([f"c{n}" for n in range(12)] + ["ours"], "ours")
    assert found["ours"] == 2 and 2 not in [number for name, number in found.items() if name != "ours"]
    assert [tone(["a", "ours", "b", "c"], "ours")[name] for name in ("a", "b", "c")] == [0, 1, 3]


def test_a_histogram_counts_each_value_once() -> None:
    text = histogram({"a": sorted([1.0] * 30 + [50.0] * 20 + [99.0] * 50)}, "t", Scale("x"), bins=10)
    counts = [int(number) for number in re.findall(r"<title>[\d.]+ to [\d.]+: (\d+)</title>", text)]
    assert len(counts) == 10 and counts[0] == 30 and counts[-1] == 50 and sum(counts) == 100


def test_what_lies_beyond_a_histogram_is_in_its_outermost_bins() -> None:
    text = histogram({"a": [0.0, 0.5, 5.0, 50.0]}, "t", Scale("x", log=True, low=1, high=10), bins=4)
    assert sum(int(number) for number in re.findall(r"<title>[^<]+: (\d+)</title>", text)) == 4


def test_several_histograms_are_shares_so_that_sizes_do_not_matter() -> None:
    few, many = [1.0, 2.0, 3.0], [1.0] * 100 + [2.0] * 100 + [3.0] * 100
    text = histogram({"few": few, "many": many}, "t", Scale("x"), bins=3)
    assert places(text, "steps s0") == places(text, "steps s1")
    assert "few: p50 2, p95 3, p99 3" in text
