"""Lanes as the front sees them: what matches, what cannot hold, who has which places."""

from __future__ import annotations

import re

import pytest

from greenlane.errors import SettingsError
from greenlane.settings import Lane
from greenlane_serve.lanes import REST, SHARED, Match, lanes_of, layout_of, parse
from greenlane_serve.settings import ServeSettings


@pytest.mark.parametrize(
    ("glob", "method", "path"),
    [("/bikes/*", "", "/bikes/*"), ("GET /bikes/*", "GET", "/bikes/*"), ("* /x", "*", "/x"), ("*", "", "*"),
     ("[GP]* /x", "[GP]*", "/x"), ("OPTIONS *", "OPTIONS", "*")],
)  # fmt: skip
def test_a_glob_is_a_path_or_a_method_and_a_path(glob: str, method: str, path: str) -> None:
    assert parse(glob, setting="lanes.a.match") == Match(method, path)


def test_what_only_a_framework_knows_is_refused() -> None:
    with pytest.raises(SettingsError, match="the front sees no other route") as caught:
        parse("bikes.view", setting="lanes.a.match")
    assert caught.value.setting == "lanes.a.match"


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("/bikes/*", "/bikes/", True), ("/bikes/*", "/bikes/1/2", True), ("/bikes/*", "/bikes", False),
        ("/a?c", "/abc", True), ("/a?c", "/ac", False), ("/[ab]", "/b", True), ("/[!ab]", "/b", False),
        ("/[!ab]", "/^", True), ("/[^a]", "/b", False), ("/a.c", "/abc", False), ("/bikes/<int:id>", "/bikes/7", True),
        ("/bikes/<id>/x", "/bikes/7/8/x", False), ("/f/<path:rest>", "/f/a/b", True), ("/i/{id}", "/i/3", True),
        ("/i/{rest:path}", "/i/3/4", True), ("/a[", "/a[", True), ("/[a\\]", "/\\", True),
    ],
)  # fmt: skip
def test_a_glob_as_a_regular_expression(glob: str, path: str, matches: bool) -> None:
    assert bool(re.search(Match("", glob).path_regex, path)) is matches


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [("/bikes/*", "/bikes/fast", True), ("/bikes/*", "GET /bikes/*", True), ("GET /bikes/*", "/bikes/1", False),
     ("/bikes/fast", "/bikes/*", False), ("/a?", "/a*", False), ("*", "/x", True), ("/a*", "/a?", True)],
)  # fmt: skip
def test_which_glob_hides_another(wide: str, narrow: str, covers: bool) -> None:
    assert parse(wide, setting="x").covers(parse(narrow, setting="x")) is covers


def test_a_lane_that_an_earlier_one_hides_is_refused() -> None:
    lanes = (Lane("all", match=("/bikes/*",)), Lane("fast", match=("/bikes/fast",)))
    with pytest.raises(SettingsError, match=r"lane 'all' above it .*'/bikes/\*'\nhint: move \[lanes.fast\] above"):
        lanes_of(ServeSettings(lanes=lanes))
    lanes_of(ServeSettings(lanes=lanes[::-1]))
    asks_more = Lane("all", match=("/bikes/*",), headers={"X-Client": "phone*"})
    lanes_of(ServeSettings(lanes=(asks_more, lanes[1])))


def test_a_hard_lane_needs_workers() -> None:
    with pytest.raises(SettingsError, match="at least 1 for a hard lane\nhint: add processes = 1"):
        lanes_of(ServeSettings(lanes=(Lane("hogs", match=("/hog",), kind="hard"),)))


def test_lanes_cannot_keep_every_worker() -> None:
    lanes = (Lane("a", match=("/a",), processes=2), Lane("b", match=("/b",), kind="hard", processes=2))
    rule = "over 4, what the lanes keep .a 2, b 2.: nothing would be left for the rest\nhint: set workers = 5"
    with pytest.raises(SettingsError, match=rule):
        layout_of(ServeSettings(workers=4, lanes=lanes))


def test_a_reserve_limits_the_others_and_not_its_lane() -> None:
    lanes = (
        Lane("light", match=("/light*",), processes=1), Lane("capped", match=("/c",), at_once=3),
        Lane("alone", match=("/alone",), kind="hard", processes=2),
    )  # fmt: skip
    layout = layout_of(ServeSettings(workers=6, lanes=lanes))
    light, capped, alone, rest = layout.lanes
    assert rest is REST
    assert layout.groups == {SHARED: 4, "lane-alone": 2}
    assert [layout.gated(lane) for lane in layout.lanes] == [False, True, False, True]
    assert [layout.most(lane, 2) for lane in layout.lanes] == [8, 3, 4, 6]
    assert [layout.group_of(lane) for lane in (light, capped, alone)] == [SHARED, SHARED, "lane-alone"]


def test_without_reserves_nobody_passes_a_gate() -> None:
    layout = layout_of(ServeSettings(workers=2, lanes=(Lane("a", match=("/a",), priority=5, deadline_ms=100),)))
    assert not any(layout.gated(lane) for lane in layout.lanes)
