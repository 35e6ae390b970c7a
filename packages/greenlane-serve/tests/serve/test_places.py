"""How many requests each worker gets at once: changed live at a real HAProxy, gates with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serve.served import until
from tests.serve.test_group import Acts

from greenlane.errors import ServeError
from greenlane.settings import Lane
from greenlane_serve.group import Group
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.haproxy.site import FrontServer, Site
from greenlane_serve.lanes import FIRST_AT_ONCE, SHARED, Layout, layout_of
from greenlane_serve.places import Chosen, Places
from greenlane_serve.settings import ServeSettings
from tests import child
from tests.servers.server import find

LANES = (Lane("light", match=("/light",), processes=1), Lane("hogs", match=("/hog",), at_once=3))
SETTINGS = ServeSettings(workers=3, lanes=LANES)


def layout_and_group(folder: Path) -> tuple[Layout, Group]:
    layout = layout_of(SETTINGS)
    return layout, Group(SHARED, layout.groups[SHARED], folder, Acts(), stop_s=1.0)


@pytest.mark.system
def test_a_change_reaches_workers_and_gates_and_can_be_read(tmp_path: Path) -> None:
    layout, group = layout_and_group(tmp_path)
    places = Places(SETTINGS, layout.groups, threads=False)
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
    places = Places(SETTINGS, [SHARED], threads=False)
    assert places.sets == {SHARED: Chosen(FIRST_AT_ONCE, "nothing is measured yet")}
    places.read(ServeSettings(at_once=5))
    assert (places.live, places.at_once(SHARED)) == (False, 5)
    places.read(SETTINGS)
    assert (places.live, places.at_once(SHARED)) == (True, FIRST_AT_ONCE)


def test_a_number_that_the_front_did_not_hear_holds_for_the_next(tmp_path: Path) -> None:
    layout, group = layout_and_group(tmp_path)
    places = Places(SETTINGS, layout.groups, threads=False)
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
