"""How a service stands, from the front's counters and the tree's states; and the tables of it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.serve.test_group import Acts

from greenlane.settings import Lane
from greenlane_serve.cli.status import Services
from greenlane_serve.group import Group, State
from greenlane_serve.haproxy.runtime import Row
from greenlane_serve.lanes import SHARED, layout_of
from greenlane_serve.measured import CoreTimes, WorkerWork, work_of_groups
from greenlane_serve.places import Places
from greenlane_serve.settings import ServeSettings
from greenlane_serve.status import _clocked, status_of
from greenlane_serve.worker.ledger import Sums

LANES = (
    Lane("light", match=("/light",), processes=1, priority=5),
    Lane("mine", match=("/mine",), kind="hard", processes=1, deadline_ms=250),
)
SETTINGS = ServeSettings(workers=4, at_once=2, lanes=LANES)


def row(backend: str, server: str, *, current: int = 0, queued: int = 0, requests: int = 0, queue_ms: int = 0) -> Row:
    answers = (0, requests, 0, 0, 0)
    return Row(backend, server, "no check", current, queued, 2, requests, answers, 0, 0, 0, 0, queue_ms, 3, 4)


def service(folder: Path) -> Any:
    """As much of a tree as has a say: its groups, one worker of which serves and one boots."""
    layout = layout_of(SETTINGS)
    groups = {name: Group(name, workers, folder, Acts(), stop_s=1.0) for name, workers in layout.groups.items()}
    for pid, (group, state) in enumerate([(SHARED, State.SERVING), ("lane-mine", State.BOOTING)], start=11):
        slot = groups[group].slots[0]
        slot.pid, slot.state = pid, state
    front = SimpleNamespace(child=SimpleNamespace(pid=10), version="2.6.12")
    places = Places(SETTINGS, layout.groups, threads=False)
    return SimpleNamespace(settings=SETTINGS, layout=layout, groups=groups, places=places, front=front, reloads=3)


def test_each_queue_is_counted_where_it_is(tmp_path: Path) -> None:
    tree = service(tmp_path)
    name = tree.groups[SHARED].slots[0].name
    rows = [
        row(SHARED, "BACKEND", current=9, queued=4, requests=70, queue_ms=12),
        row(SHARED, name, current=2, requests=60),
        row(SHARED, "other", current=1, requests=10),
        row("gate", "BACKEND", queued=3, queue_ms=40),
        row("gate", "places", current=4, queued=1),
        row("lane-mine", "BACKEND"),
    ]
    status = status_of(tree, rows, [("GET /hog", 40_000_000)])
    shared, mine = status["groups"]
    assert (shared["in_progress"], shared["waiting"], shared["requests"], shared["queue_ms"]) == (3, 4, 70, 12)
    assert (shared["serving"], shared["workers"], shared["at_once"], shared["by"]) == (1, 3, 2, "setting")
    assert (mine["serving"], mine["in_progress"], mine["answers"]["2xx"]) == (0, 0, 0)
    lanes = {one["lane"]: one for one in status["lanes"]}
    assert list(lanes) == ["light", "mine", "(rest)"]
    assert (lanes["(rest)"]["places"], lanes["(rest)"]["in_progress"], lanes["(rest)"]["waiting"]) == (4, 4, 4)
    assert (lanes["light"]["reserved"], lanes["light"]["in_progress"]) == (1, None), "it waits in the group's queue"
    assert lanes["mine"]["kind"] == "hard" and lanes["mine"]["group"] == "lane-mine"
    serving, boots = status["workers"]
    assert (serving["pid"], serving["state"], serving["in_progress"]) == (11, "serving", 2)
    assert (boots["pid"], boots["state"], boots["requests"], boots["since_s"]) == (12, "booting", None, None)
    assert status["routes"] == [{"route": "GET /hog", "lane": "apart", "cpu_ms": 40.0}]
    bind = [*SETTINGS.bind]
    assert status["front"] == {"pid": 10, "version": "2.6.12", "bind": bind, "reloads": 3, "log_lost": None}


def test_the_front_refused_what_no_worker_answered(tmp_path: Path) -> None:
    tree = service(tmp_path)
    name = tree.groups[SHARED].slots[0].name
    whole = replace(row(SHARED, "BACKEND"), answers=(0, 50, 0, 0, 9))
    server = replace(row(SHARED, name), answers=(0, 50, 0, 0, 2))
    gate = replace(row("gate", "BACKEND"), answers=(0, 0, 0, 0, 4))
    status = status_of(tree, [whole, server, gate], [])
    assert status["groups"][0]["refused"] == 7
    assert [lane["refused"] for lane in status["lanes"] if lane["lane"] == "(rest)"] == [4]


def test_what_workers_told_is_added_up_by_group_with_what_each_has(tmp_path: Path) -> None:
    tree = service(tmp_path)
    tree.groups[SHARED].slots[1].pid = 13
    came = {
        11: WorkerWork(1_000, [("a", 1, 2)], 1, 10, 20, 30),
        13: WorkerWork(2_000, [("a", 4, 5)], 4, 1, 2, 3),
        99: WorkerWork(5_000, [("z", 1, 1)], 1, 1, 1, 1),
    }
    worked = work_of_groups(tree, came, {11: CoreTimes(0.5, 1.5), 99: CoreTimes(1.0, 1.0)})
    assert worked == {SHARED: ((3_000, 500, 1_500), 5, 11, 22, 33, [("a", 1, 2), ("a", 4, 5)])}


def test_tables_of_a_service_and_none_of_what_is_not_there(tmp_path: Path) -> None:
    tree = service(tmp_path)
    status = status_of(tree, [row(SHARED, "x", requests=10)], [])
    services = Services()
    first = services.take([{"pid": 7, "serve": status}, {"pid": 8}, {"pid": 9, "serve": {}}], 1.0)
    assert [columns[0] for _, columns in first] == ["haproxy", "group", "lane", "worker"]
    assert "requests_per_s" not in first[1][0][0]
    later = services.take([{"pid": 7, "serve": status_of(tree, [row(SHARED, "x", requests=30)], [])}], 3.0)
    assert later[1][0][0]["requests_per_s"] == 10.0
    assert later[3][0][0]["worker"].startswith("shared/")  # type: ignore[attr-defined]
    for lines, columns in later:
        assert all(column in line or column == "requests_per_s" for line in lines for column in columns)


def test_busy_time_and_lag_are_told_by_clocks_where_nothing_records(tmp_path: Path) -> None:
    recorded = 'greenlane_busy_seconds_total{worker="1",pid="8"} 3.000000000\n'
    sums = Sums(1, {}, 0, 0, [3, 1], 2_000)
    told = "".join(_clocked({os.getpid(): sums, 8: sums}, [recorded]))
    assert f'greenlane_busy_seconds_total{{pid="{os.getpid()}"}}' in told and 'pid="8"' not in told
    assert f'greenlane_lag_seconds_count{{pid="{os.getpid()}"}} 4\n' in told
