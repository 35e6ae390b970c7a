"""`greenlane divert`."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kombu
import pytest
from tests.worker.site import eventually

from greenlane_work.diversion import Sighting, open_place
from greenlane_work.diversion.watch import ShareWatch

Run = Callable[..., Any]


@pytest.mark.gate
def test_a_share_is_set_seen_and_shown(run_cli: Run, url: str, flow: str) -> None:
    place = open_place(url)
    watch = ShareWatch(place, flow)
    assert watch.share.revision == 0
    eventually(lambda: bool(place.sightings(flow)))
    said = run_cli("divert", flow, "--to", "new", "--share", "30%", "--diversion", url, "--wait-s", "20")
    assert said.code == 0
    assert said.err.startswith("seen by all 1 producers after ")
    assert watch.share.share_frac == 0.3
    rows = json.loads(run_cli("divert", flow, "--status", "--diversion", url, "--json").out)["rows"]
    share, producer = rows
    assert (share["flow"], share["to"], share["share_frac"]) == (flow, "new", 0.3)
    assert share["set_by"].endswith("@" + socket.gethostname())
    assert (producer["producer"], producer["seen"]) == (f"{socket.gethostname()}:{os.getpid()}", True)
    assert producer["seen_after_s"] >= 0
    table = run_cli("divert", flow, "--status", "--diversion", url).out.splitlines()
    assert table[0].split() == ["flow", "to", "share_frac", "set_by", "set_at", "effect_s"]
    assert table[1].split()[:3] == [flow, "new", "0.3"]
    watch.close()


def test_nobody_who_publishes_is_said_so(run_cli: Run, url: str, flow: str) -> None:
    said = run_cli("divert", flow, "--to", "new", "--share", "0.3", "--diversion", url)
    assert (said.code, said.err) == (0, "no producer has said anything within 15 s: those that start see it at once\n")


def test_a_producer_that_does_not_see_it_is_named_and_the_exit_code_1(run_cli: Run, url: str, flow: str) -> None:
    open_place(url).say(flow, Sighting("elsewhere:7", 1, 0.0, 1.0, time.time()))
    said = run_cli("divert", flow, "--to", "new", "--share", "0.3", "--diversion", url, "--wait-s", "0.1")
    assert said.code == 1
    assert "by elsewhere:7" in said.err


@pytest.mark.parametrize(
    ("argv", "says", "hint"),
    [
        (["--share", "30"], "share='30', expected a share from 0% to 100%", "write 30% for that many of a hundred"),
        (["--share", "30%"], "to='', expected a queue that orders can go to", "--to greenlane"),
        (["--share", "30%", "--to", "orders"], "expected another queue than the orders' own", ""),
        ([], "one of --share and --status is needed", "see `greenlane divert --help`"),
        (["--status", "--share", "0"], "--status changes nothing", ""),
        (["--status", "--to", "new"], "--to needs --share", ""),
        (["--share", "0", "--wait-s", "nan"], "--wait-s must be from 0 to 3600", ""),
        (["--share", "0", "--wait-s", "-1"], "--wait-s must be from 0 to 3600", ""),
        (["--share", "0", "--diversion", "http://x"], "diversion='http://x', expected file:///FOLDER", "file:///run"),
        (["--share", "0", "--diversion", ""], "diversion='', expected where the shares lie", "as the producers do"),
        (["--status", "--broker", "amqp://me:secret@127.0.0.1:1//"], "without its password", "BROKER_URL"),
        (["--status", "--diversion", "redis://:secret@127.0.0.1:1/"], "without its password", "GREENLANE_DIVERSION"),
    ],
)
def test_wrong_usage_exits_2_and_changes_nothing(
    run_cli: Run, tmp_path: Path, argv: list[str], says: str, hint: str
) -> None:
    given = argv if "--diversion" in argv else [*argv, "--diversion", f"file://{tmp_path}/shares"]
    said = run_cli("divert", "orders", *given)
    assert said.code == 2
    assert says in said.err and hint in said.err
    assert "secret" not in said.err
    assert not list(tmp_path.glob("shares/*.json"))


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("broker", ["rabbitmq_url", "redis_url"])
def test_the_orders_that_wait_on_both_sides_are_counted(
    run_cli: Run,
    tmp_path: Path,
    flow: str,
    broker: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, at = request.getfixturevalue(broker), f"file://{tmp_path}/shares"
    monkeypatch.setenv("BROKER_URL", url)
    run_cli("divert", flow, "--to", f"{flow}-new", "--share", "0", "--diversion", at)
    with kombu.Connection(url) as connection:
        kombu.Queue(flow)(connection).declare()
        producer = connection.Producer()
        for _ in range(3):
            producer.publish({}, routing_key=flow)
        rows = json.loads(run_cli("divert", flow, "--status", "--diversion", at, "--broker", "--json").out)["rows"]
    old, new = (row for row in rows if row["row"] == "queue")
    assert (old["queue"], old["side"], old["ready"]) == (flow, "old", 3)
    assert (new["queue"], new["side"]) == (f"{flow}-new", "new")
    assert new["ready"] == (None if broker == "rabbitmq_url" else 0)
