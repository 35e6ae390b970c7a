"""What pages are made of: text stays text, quantities read well, axes are round, charts say what they were given."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest

from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LinearAxis, LogAxis, round_step, time_step_ns
from greenlane_tools.page.charts.curves import Curve, Mark, Point, Scale, curves
from greenlane_tools.page.charts.flame_graph import flame_graph
from greenlane_tools.page.charts.heat_map import heat_map
from greenlane_tools.page.charts.histogram import histogram
from greenlane_tools.page.charts.ridges import ridges
from greenlane_tools.page.charts.stacked_bars import Bar, stacked_bars
from greenlane_tools.page.charts.time_lines import time_lines
from greenlane_tools.page.charts.waterfall import MOST_LANES, Stretch, waterfall
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.document import document
from greenlane_tools.page.frame import apart, tone
from greenlane_tools.page.html import Html, element, json_script
from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.page.svg import fitted
from tests.page_tags import tags, what_it_fetches

HOSTILE = "</script><script>alert('x')</script>\x1b[2J\"&"


@pytest.mark.parametrize(
    ("ns", "said"),
    [(0, "0"), (40_000, "40 us"), (2_500_000, "2.5 ms"), (110e6, "110 ms"), (999.6e6, "1 s"), (5.19e9, "5.19 s")]
    + [(-110e6, "-110 ms"), (12, "12 ns"), (150e9, "2 min 30 s"), (7_260e9, "2 h 01 min")],
)
def test_a_time_reads_in_three_digits(ns: float, said: str) -> None:
    assert duration(ns) == said


def test_a_share_that_is_neither_none_nor_all_never_reads_so() -> None:
    assert [share(frac) for frac in (0, 0.0001, 0.051, 0.71, 0.9996, 1)] == [
        *("0 %", "< 0.1 %", "5.1 %", "71 %", "> 99.9 %", "100 %")
    ]


def test_factors_and_counts() -> None:
    assert (factor(47.2), factor(1.44), count(100_000)) == ("47×", "1.4×", "100,000")


def test_text_becomes_no_markup_and_markup_stays() -> None:
    assert element("p", "<b>", Html("<i>x</i>"), title='"') == '<p title="&quot;">&lt;b&gt;<i>x</i></p>'
    assert "\x1b" not in element("p", HOSTILE)
    assert "</script><" not in json_script("x", [HOSTILE])


def test_a_formatted_piece_is_text_again() -> None:
    assert element("p", f"{Html('<b>')}") == "<p>&lt;b&gt;</p>"


def test_a_cut_name_keeps_both_ends_and_fits() -> None:
    name = "GET /api/v1/accounts/<int:account>/orders/lines/42"
    cut = fitted(name, 140)
    assert len(cut) <= 20 and cut.startswith("GET /api") and cut.endswith("s/42")
    assert fitted("short", 140) == "short"
    assert fitted(name, 5) == ""


def test_axes_are_round() -> None:
    assert [round_step(value) for value in (0.3, 3, 21, 99)] == [0.5, 5, 50, 100]
    assert time_step_ns(60e9) == 10_000_000_000
    assert LogAxis(60, 90, 0, 100).ticks() == [60, 70, 80, 90]
    assert LinearAxis(0, 1, 0, 100, 0.25).ticks() == [0, 0.25, 0.5, 0.75, 1]
    assert LogAxis(9e6, 210e6, 0, 100).ticks() == [10e6, 20e6, 50e6, 100e6, 200e6]


def test_an_axis_of_one_value_is_still_an_axis() -> None:
    assert LinearAxis(5, 5, 0, 10).at(5) == 0
    assert LogAxis(5, 5, 0, 10).at(5) == 0


def test_a_long_table_can_be_searched_and_a_short_one_needs_no_field() -> None:
    short, long = (blocks.table(["a", "b"], [blocks.Row(["x", 1])] * rows, "t") for rows in (3, 40))
    assert "search" not in short and 'type="search"' in long


def test_a_single_panel_has_no_tabs() -> None:
    assert "tabs" not in blocks.tabs("t", {"one": Html("<p>x</p>")})
    assert blocks.tabs("t", {"one": Html(""), "two": Html("")}).count('type="radio"') == 2


def charts(name: str) -> dict[str, str]:
    axis = LogAxis(1e6, 1e9, LEFT, RIGHT)
    return {
        "ridges": ridges({name: [1e6, 2e6, 9e6]}, name, deadline_ns=5e6),
        "whiskers": whiskers({name: [Whisker(name, 2e6, 3e6, 4e6, name, name)]}, axis, name, duration),
        "bars": stacked_bars([Bar(name, {"cpu": 5e6, "loop": 9e7}, name)], name),
        "heat map": heat_map([name], [name], {(name, name): 5e6}, name),
        "waterfall": waterfall([Stretch(name, "cpu", 0, 9e6, name)], 9e6, name, 5e6),
        "curves": curves(
            [Curve(name, [Point(1, 2, 1, 3)], band=True), Curve(name, [Point(1, 2)], reference=True)],
            name,
            Scale(name),
            Scale(name),
            upright=[Mark(1, name)],
            level=[Mark(2, name)],
        ),
        "histogram": histogram({name: [1.0, 2.0, 9.0]}, name, upright=[Mark(2, name)]),
        "lines": time_lines({name: [(0, 1), (1e9, 2)]}, name, lambda value: f"{value:g}"),
        "flames": flame_graph([(f"{name};f (a.py:1)", 5.0)], name),
    }


@pytest.mark.parametrize("chart", list(charts("x")))
def test_a_chart_is_well_formed_and_takes_hostile_names_as_text(chart: str) -> None:
    text = document(HOSTILE, [], [charts(HOSTILE)[chart]])
    assert not what_it_fetches(text)
    assert "\x1b" not in text and "<script>alert" not in text
    (drawing,) = [attributes for tag, attributes in tags(text).seen if tag == "svg"]
    assert drawing["aria-label"] and drawing["role"] in ("img", "group")


@pytest.mark.parametrize(
    "empty",
    [
        stacked_bars([], "t"),
        stacked_bars([Bar("a", {"cpu": 0})], "t"),
        heat_map([], [], {}, "t"),
        waterfall([], 0, "t"),
        time_lines({}, "t", str),
        time_lines({"a": []}, "t", str),
        curves([], "t", Scale("x"), Scale("y")),
        curves([Curve("a", [Point(1, math.nan)])], "t", Scale("x"), Scale("y", log=True)),
        curves([Curve("a", [Point(0, 0)])], "t", Scale("x", log=True), Scale("y", log=True)),
        histogram({}, "t"),
        histogram({"a": []}, "t"),
    ],
)
def test_nothing_to_draw_is_no_failure(empty: str) -> None:
    assert tags(empty).seen


def test_bars_are_as_long_as_their_parts() -> None:
    text = stacked_bars([Bar("a", {"cpu": 25e6, "loop": 75e6, "gil": 0})], "t")
    cpu, loop = (float(re.search(rf'k-{kind}"[^>]* width="([\d.]+)"', text)[1]) for kind in ("cpu", "loop"))  # type: ignore[index]
    assert loop == pytest.approx(3 * cpu, rel=0.01)
    assert "k-gil" not in text


def test_a_flame_is_as_wide_as_its_stacks_and_unseen_frames_are_left_out() -> None:
    text = flame_graph([("a;x", 750.0), ("a;y", 250.0), ("b", 0.1)], "t")
    widths = {
        said.partition(":")[0]: float(width)
        for width, said in re.findall(r'data-w="([\d.]+)"><title>([^<]+)</title>', text)
    }
    assert widths == pytest.approx({"all": 1, "a": 1, "x": 0.75, "y": 0.25}, abs=1e-3)
    assert flame_graph([], "t") == ""


def test_deep_recursion_and_many_frames_are_bounded() -> None:
    deep = flame_graph([(";".join(f"f{n}" for n in range(5_000)), 1.0)], "t")
    wide = flame_graph([(f"f{n};g", 1.0) for n in range(20_000)], "t")
    assert deep.count("<g ") < 100 and wide.count("<g ") < 5_000


def test_a_job_of_many_children_is_drawn_in_bounds_and_says_so() -> None:
    stretches = [Stretch(f"task {n % 40}", "cpu", n * 10, n * 10 + 5, "x") for n in range(5_000)]
    text = waterfall(stretches, 50_000, "t")
    assert text.count("<rect") <= 240
    assert sum(f">task {n}</text>" in text for n in range(40)) == MOST_LANES
    assert "short stretches not drawn" in text


def test_names_of_lines_do_not_lie_on_each_other() -> None:
    text = time_lines({f"w{n}": [(0, 1), (1e9, 0)] for n in range(6)}, "t", str)
    heights = sorted(float(y) for y in re.findall(r'class="name s\d" x="[\d.]+" y="([\d.]+)"', text))
    assert len(heights) == 6 and all(after - before >= 12 for before, after in pairwise(heights))


# --- Plots say what they were given: where values lie, what is expected, nothing beyond the frame.


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
