"""What workers tell in their ledgers, and what has come since."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.serve.served import until
from tests.serve.test_group import Acts

from greenlane.errors import ServeError
from greenlane.settings import Lane, load
from greenlane_serve.folders import with_control
from greenlane_serve.group import Group
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.routing import FILE, NO_LANE, assigned, change
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.haproxy.site import FrontServer, Site
from greenlane_serve.lanes import APART, FIRST_AT_ONCE, SHARED, Layout, lanes_of, layout_of
from greenlane_serve.measured import Since
from greenlane_serve.places import Chosen, Places
from greenlane_serve.settings import ServeSettings
from greenlane_serve.worker.ledger import Ledger, RouteSums, Sums
from tests import child
from tests.servers.server import find

MS = 1_000_000


def told(
    at_ns: int, *, lag: tuple[int, int] = (0, 0), blocked: tuple[int, int] = (0, 0), **routes: tuple[int, int, int]
) -> Sums:
    """`lag`: wake-ups, and how late they were together; `blocked`: for how long, and how often."""
    return Sums(at_ns, {name: RouteSums(*row) for name, row in routes.items()}, *blocked, [lag[0]], lag[1])


def test_what_has_come_is_the_difference_to_the_last_answer() -> None:
    since = Since()
    assert since.take({1: told(1_000, blocked=(50 * MS, 10), bikes=(10, 5 * MS, 10))}) == {}
    later = told(3_000, blocked=(52 * MS, 14), bikes=(14, 7 * MS, 14), hogs=(1, 30 * MS, 1))
    came = since.take({1: later})[1]
    assert (came.span_ns, came.jobs, came.blocked_ns) == (2_000, 5, 2 * MS)
    assert came.ended == [("bikes", 4, 2 * MS), ("hogs", 1, 30 * MS)]


def test_what_was_looked_at_stands_for_the_rest() -> None:
    since = Since()
    since.take({1: told(1, a=(0, 0, 0))})
    came = since.take({1: told(2, a=(100, 30 * MS, 10), never=(5, 0, 0))})
    assert came[1].ended == [("a", 100, 300 * MS)], "of the other one nothing is known yet"
    came = since.take({1: told(3, a=(101, 30 * MS, 10))})
    assert came[1].ended == [("a", 1, 3 * MS)], "none was looked at: the mean of all"


def test_the_wait_until_code_goes_on_is_no_io() -> None:
    since = Since()
    since.take({1: told(1, lag=(10, 10 * MS))})
    # 20 wake-ups were 5 ms late each meanwhile.
    came = since.take({1: told(2, lag=(30, 110 * MS), blocked=(600 * MS, 10))})[1]
    assert (came.blocked_ns, came.wakes, came.late_ns) == (550 * MS, 20, 100 * MS)
    assert since.take({1: told(3, lag=(50, 210 * MS), blocked=(690 * MS, 30))})[1].blocked_ns == 0


def test_an_answer_counts_once_and_a_new_process_begins_anew() -> None:
    since = Since()
    first = told(1_000, blocked=(50, 0), bikes=(10, 5, 10))
    since.take({1: first})
    assert since.take({1: first}) == {}
    assert since.take({2: told(2_000, bikes=(3, 30, 3))}) == {}
    assert since.take({2: told(3_000, bikes=(4, 35, 4))})[2].ended == [("bikes", 1, 5)]


def test_both_sides_of_a_ledger_see_the_same() -> None:
    parent = Ledger()
    worker = Ledger(os.dup(parent.fd))
    try:
        assert (parent.last_s(), parent.read()) == (0.0, None)
        worker.beat()
        assert parent.last_s() > 0
        for sums in (told(7, lag=(3, 4), blocked=(5, 6), a=(1, 2, 3), b=(0, 0, 0)), told(8, a=(9, 2, 3))):
            worker.write(sums)
            assert parent.read() == sums
        os.pwrite(worker.fd, b"torn", 40)
        assert parent.read() is None
    finally:
        worker.close()
        parent.close()


def test_workers_have_control_sockets_in_a_folder_that_goes_with_us() -> None:
    environ: dict[str, str] = {}
    with with_control(ServeSettings(), environ):
        settings: Any = load(environ={**environ, "GREENLANE_CONFIG": ""}, kind=ServeSettings)
        folder = Path(settings.control_dir)
        assert folder.stat().st_mode & 0o077 == 0
        assert not settings.record_folder, "nothing is recorded that nobody asked for"
        with with_control(ServeSettings(), {}):  # another service takes nothing away
            assert folder.exists()
    assert environ == {}
    assert not folder.exists()


def test_what_the_settings_say_stays() -> None:
    environ: dict[str, str] = {}
    with with_control(ServeSettings(control_dir="/run/shop"), environ):
        assert environ == {}
    with with_control(
        load({"control_dir": "/run/shop"}, environ={"GREENLANE_CONFIG": ""}, kind=ServeSettings), environ
    ):
        assert environ == {"GREENLANE_CONTROL_DIR": "/run/shop"}, "workers get the flag by their environment"


# --- Routes that go to a lane live: which expressions, in which order, and a real HAProxy that goes over to them.


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


# --- How many requests each worker gets at once: changed live at a real HAProxy, gates with it.


LANES = (Lane("light", match=("/light",), processes=1), Lane("hogs", match=("/hog",), at_once=3))
PLACES_SETTINGS = ServeSettings(workers=3, lanes=LANES)


def layout_and_group(folder: Path) -> tuple[Layout, Group]:
    layout = layout_of(PLACES_SETTINGS)
    return layout, Group(SHARED, layout.groups[SHARED], folder, Acts(), stop_s=1.0)


@pytest.mark.system
def test_a_change_reaches_workers_and_gates_and_can_be_read(tmp_path: Path) -> None:
    layout, group = layout_and_group(tmp_path)
    places = Places(PLACES_SETTINGS, layout.groups, threads=False)
    assert places.live
    servers = {SHARED: [FrontServer(slot.name, slot.socket, FIRST_AT_ONCE, True) for slot in group.slots]}
    site = Site(layout, servers, [f"127.0.0.1:{child.free_port()}"], tmp_path, {SHARED: FIRST_AT_ONCE}, connections=100)
    (tmp_path / "haproxy.cfg").write_text(configuration(site))
    runtime = Runtime(tmp_path / "runtime")
    with child.Child([find("haproxy", name="HAProxy"), "-db", "-f", tmp_path / "haproxy.cfg"]):
        wait_for(runtime)
        assert at_once(runtime) == {"workers": {FIRST_AT_ONCE}, "gate": 2 * FIRST_AT_ONCE, "gate-hogs": 3}
        places.change(group, 1, "measured: it computes", layout, runtime)
        assert at_once(runtime) == {"workers": {1}, "gate": 2, "gate-hogs": 2}
        assert places.sets == {SHARED: Chosen(1, "measured: it computes")}


def test_what_the_settings_fix_wins_and_what_was_measured_stays() -> None:
    places = Places(PLACES_SETTINGS, [SHARED], threads=False)
    assert places.sets == {SHARED: Chosen(FIRST_AT_ONCE, "nothing is measured yet")}
    places.read(ServeSettings(at_once=5))
    assert (places.live, places.at_once(SHARED)) == (False, 5)
    places.read(PLACES_SETTINGS)
    assert (places.live, places.at_once(SHARED)) == (True, FIRST_AT_ONCE)


def test_a_number_that_the_front_did_not_hear_holds_for_the_next(tmp_path: Path) -> None:
    layout, group = layout_and_group(tmp_path)
    places = Places(PLACES_SETTINGS, layout.groups, threads=False)
    with pytest.raises(ServeError):
        places.change(group, 3, "measured", layout, Runtime(tmp_path / "nobody"))
    assert places.at_once(SHARED) == 3


def at_once(runtime: Runtime) -> dict[str, object]:
    rows = {(row.backend, row.server): row.at_once for row in runtime.rows()}
    workers = {most for (backend, server), most in rows.items() if backend == SHARED and server != "BACKEND"}
    return {"workers": workers, "gate": rows["gate", "places"], "gate-hogs": rows["gate-hogs", "places"]}


def wait_for(runtime: Runtime) -> None:
    def answers() -> bool:
        try:
            return bool(runtime.rows())
        except ServeError:
            return False

    until(answers)
