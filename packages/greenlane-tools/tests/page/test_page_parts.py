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
