"""Routes that go to a lane live: which expressions, in which order, and a real HAProxy that goes over to them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.serve.test_places import wait_for

from greenlane.errors import ServeError
from greenlane.settings import Lane
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.routing import FILE, NO_LANE, assigned, change
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.haproxy.site import FrontServer, Site
from greenlane_serve.lanes import APART, SHARED, lanes_of, layout_of
from greenlane_serve.settings import ServeSettings
from tests import child
from tests.servers.server import find

SETTINGS = ServeSettings(workers=3)


def lane_of(rows: list[tuple[str, str]], request: str) -> str:
    method, path = request.split(" ", 1)
    return next((lane for key, lane in rows if re.search(key, method + path)), NO_LANE)


def test_a_route_takes_its_requests_and_no_others() -> None:
    apart = ["GET /report", "POST /bikes/<int:id>/quote", "GET /files/<path:rest>", "GET /items/{id}", "GET /deep/*"]
    rows = assigned(APART, apart, ["GET /", "GET /bikes"])
    for request in ("GET /report", "POST /bikes/7/quote", "GET /files/a/b", "GET /items/x", "GET /deep/1/2"):
        assert lane_of(rows, request) == APART
    for request in ("POST /report", "GET /report/1", "GET /bikes/7/quote", "POST /bikes/7/8/quote", "GET /items/x/y"):
        assert lane_of(rows, request) == NO_LANE
    assert [lane for _, lane in rows] == [APART] * 5


def test_a_light_route_that_a_heavy_one_would_take_stands_before_it() -> None:
    rows = assigned(APART, ["GET /items/<id>"], ["GET /items/popular", "GET /else", "POST /items/popular"])
    assert [lane for _, lane in rows] == [NO_LANE, APART]
    assert lane_of(rows, "GET /items/popular") == NO_LANE
    assert lane_of(rows, "GET /items/8") == APART


@pytest.mark.parametrize("route", ["quote", "GET /*", "GET /<page>", "", "(other)", "GET /a\tb", "OPTIONS *"])
def test_what_the_front_cannot_tell_stays_where_it_is(route: str) -> None:
    assert assigned(APART, [route], []) == []


@pytest.mark.system
def test_a_running_front_goes_over_to_another_assignment(tmp_path: Path) -> None:
    layout = layout_of(SETTINGS)
    servers = {SHARED: [FrontServer("w1", tmp_path / "w1", 1, True)]}
    port = child.free_port()
    site = Site(layout, servers, [f"127.0.0.1:{port}"], tmp_path, {SHARED: 1}, connections=100)
    file, runtime = tmp_path / FILE, Runtime(tmp_path / "runtime")
    change(file, assigned(APART, ["GET /old"], []), None)
    (tmp_path / "haproxy.cfg").write_text(configuration(site))
    with child.Child([find("haproxy", name="HAProxy"), "-db", "-f", tmp_path / "haproxy.cfg"]):
        wait_for(runtime)
        assert "GET/old$ apart" in runtime.ask(f"show map {file}")
        many = [f"GET /route-{number}/<id>" for number in range(600)]  # over a command's 16 KB
        rows = assigned(APART, [*many, "GET /it's \\ a # b"], [])
        change(file, rows, runtime)
        shown = [line.split(" ", 1)[1] for line in runtime.ask(f"show map {file}").splitlines() if line]
        assert shown == [" ".join(row) for row in rows] == file.read_text().splitlines()
        change(file, [], runtime)
        assert runtime.ask(f"show map {file}").strip() == ""
        with pytest.raises(ServeError, match="assign routes"):
            change(file, [("^(", APART)], runtime)


def test_a_worker_knows_the_lane_apart() -> None:
    assert ServeSettings().assigns and not ServeSettings(at_once=2).assigns
    assert ServeSettings(lanes=(Lane("bikes", match=("/bikes*",)),)).lane_names() == ["bikes", APART]
    assert ServeSettings().lane_names() == [APART]


def test_without_lanes_what_computes_waits_last_and_nothing_is_kept_from_it() -> None:
    (lane,) = lanes_of(ServeSettings())
    layout = layout_of(ServeSettings(workers=4))
    assert (lane.name, lane.priority, lane.auto) == (APART, -1, True)
    assert layout.most(lane, 5) == 20 and not layout.gated(lane)
    named = (Lane("bikes", match=("/bikes*",), priority=1),)
    for other in (ServeSettings(lanes=named), ServeSettings(at_once=1)):
        assert all(not lane.auto for lane in lanes_of(other)), "somebody has said who goes first, or nobody measures"
    assert lanes_of(ServeSettings(), live=False) == ()
