"""The site's command line, what contenders are started with, and what is left of one that does not start."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from greenlane_tools.lab.processes import StartFailed, descendants
from greenlane_tools.lab.run.talk import LiveTalk
from offers import site, table
from offers.contenders import APART, CONTENDERS, FIXES, Contender, Fix, Place
from offers.demo.command import main as demo
from offers.demo.live.service import Service
from offers.demo.live.show import Show
from offers.site import Pricing, Site

#: A server that is well.
WELL = """
import http.server, sys
class Well(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Well).serve_forever()
"""


def test_wrong_options_exit_2_with_their_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for argv, said in (
        (["--port", "70000"], "--port=70000, expected 0 to 65535"),
        (["--folder", str(tmp_path / "file")], "expected a folder, or a name that is free"),
    ):
        assert site.main(argv) == 2
        assert said in capsys.readouterr().err


def test_without_go_it_is_said_where_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    err = io.StringIO()
    assert demo(["--fix", "none", "--out", str(tmp_path / "out")], io.StringIO(), err) == 2
    assert "build offerservice, pricing, upstream: go='', expected on PATH\nhint: " in err.getvalue()
    assert "scripts/toolchain go" in err.getvalue()


def place(tmp_path: Path) -> Place:
    return Place("127.0.0.1:7000", tmp_path, table.read(), "eta=127.0.0.1:7001", lambda: tmp_path / "pricing", tmp_path)


@pytest.mark.slow
def test_of_a_service_of_which_a_part_does_not_come_up_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(place: Place) -> list[str]:
        return [sys.executable, "-c", next(codes), place.address.rpartition(":")[2]]

    codes = iter([WELL, "print('no room'); raise SystemExit(3)"])
    monkeypatch.setattr(site, "CONTENDERS", {"broken": Contender("broken", command, servers=2)})
    here = Site(tmp_path, iterations={"python": {}, "go": {}})
    before = set(descendants(os.getpid()))
    with pytest.raises(StartFailed, match=r"exit status 3, expected an answer to GET /healthz; it said:\nno room"):
        here.pricing("broken")
    assert set(descendants(os.getpid())) == before
    here.end()


def old_haproxy(folder: Path) -> str:
    """A PATH whose HAProxy is too old: one that is missing may be where only root looks."""
    program = folder / "haproxy"
    program.write_text("#!/bin/sh\necho 'HAProxy version 1.8.30 2021/04/12 - https://haproxy.org/'\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fix", "why"),
    [
        ("permits", "exit status 0, expected an answer"),
        ("lane", "'1.8.30', expected HAProxy 2.6 or later\nhint: "),
    ],
)
def test_a_fix_that_does_not_start_leaves_the_old_one_and_the_buttons_and_the_terminal_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fix: Fix, why: str
) -> None:
    monkeypatch.setenv("PATH", old_haproxy(tmp_path))
    monkeypatch.setattr(
        site, "CONTENDERS", {"greenlane": Contender("greenlane", lambda _: [sys.executable, "-c", "1"])}
    )
    # Not a terminal: what is in progress is not told, and what went wrong is.
    err = io.StringIO()
    here = Site(tmp_path / "site", iterations={"python": {}, "go": {}})
    here.folder.mkdir()
    show = Show(here, ("hills", "north"), "hills", "permits", LiveTalk(err, err))
    old = Pricing(CONTENDERS["gevent"], (), (), tmp_path)
    for service in show.services.values():
        service.pricing = old

    async def switched() -> bool:
        begun = show.switch(fix)
        assert not show.switch("dedicated") and show.since(0)["is_switching"]
        while show.since(0)["is_switching"]:
            await asyncio.sleep(0.005)
        return begun

    assert asyncio.run(switched())
    said = f"hills stays on gevent: {FIXES[fix]} could not be started (the terminal says why)"
    assert show.since(0)["state"] == said
    assert why in err.getvalue()
    assert show.services["changing/hills"].pricing is old and not show.since(0)["marks"]
    show.close()


def test_a_switch_is_told_when_offers_ask_the_new_one_and_not_when_the_old_one_has_ended(tmp_path: Path) -> None:
    old, fresh = (Pricing(CONTENDERS[name], (), (), tmp_path) for name in ("gevent", "greenlane"))
    steps: list[str] = []

    class Started(Service):
        """What is started is there immediately."""

        def _warmed(self, fix: Fix) -> Pricing:
            return fresh

    class Stopping:
        def stop(self, one: Pricing, grace_s: float) -> None:
            assert one is old and grace_s >= 1
            steps.append("the old one has ended")

    class Pointed:
        def point_at(self, one: Pricing) -> None:
            assert one is fresh
            steps.append("offers ask the new one")

    with ThreadPoolExecutor(1) as starter:
        service = Started(Stopping(), starter, "changing", "hills", "none")  # type: ignore[arg-type]
        service.pricing, service.offers = old, Pointed()  # type: ignore[assignment]
        asyncio.run(service.switch("permits", lambda: steps.append(f"told of {service.fix}")))
    assert steps == ["offers ask the new one", "told of permits", "the old one has ended"]


def test_stock_and_permits_differ_by_the_worker_class_alone(tmp_path: Path) -> None:
    stock, ours = (CONTENDERS[name].command(place(tmp_path)) for name in ("gevent", "greenlane"))
    different = [pair for pair in zip(stock, ours, strict=True) if len(set(pair)) > 1]
    assert different == [("gevent", "greenlane.hosts.gunicorn.Worker")]
    assert CONTENDERS["dedicated"].command(place(tmp_path)) == stock and CONTENDERS["dedicated"].servers == 2
    assert all(CONTENDERS[name].servers == 1 for name in ("gevent", "greenlane", "go"))


def test_the_twin_has_one_core_and_the_same_upstreams(tmp_path: Path) -> None:
    go = CONTENDERS["go"]
    assert go.env == {"GOMAXPROCS": "1"} and go.is_go
    assert go.command(place(tmp_path))[:5] == [
        str(tmp_path / "pricing"), "-listen", "127.0.0.1:7000", "-upstreams", "eta=127.0.0.1:7001",
    ]  # fmt: skip


def test_a_second_server_is_for_bikes_and_scooters_alone(tmp_path: Path) -> None:
    def running(name: str, *ports: int) -> Pricing:
        return Pricing(CONTENDERS[name], (), ports, tmp_path)

    assert running("gevent", 7000).urls() == {"default": "http://127.0.0.1:7000", "for": {}}
    two = running("dedicated", 7000, 7001)
    assert two.urls()["for"] == dict.fromkeys(APART, "http://127.0.0.1:7001") and two.address == "127.0.0.1:7000"
