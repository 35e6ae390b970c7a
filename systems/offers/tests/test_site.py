"""The site's command line, and what contenders are started with: nothing is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from offers import site, table
from offers.contenders import APART, CONTENDERS, Place
from offers.site import Pricing


def test_wrong_options_exit_2_with_their_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for argv, said in (
        (["--port", "70000"], "--port=70000, expected 0 to 65535"),
        (["--folder", str(tmp_path / "file")], "expected a folder, or a name that is free"),
    ):
        assert site.main(argv) == 2
        assert said in capsys.readouterr().err


def place(tmp_path: Path) -> Place:
    return Place("127.0.0.1:7000", tmp_path, table.read(), "eta=127.0.0.1:7001", lambda: tmp_path / "pricing", tmp_path)


def test_stock_and_permits_differ_by_the_worker_class_and_its_threads_alone(tmp_path: Path) -> None:
    stock, ours = (CONTENDERS[name].command(place(tmp_path)) for name in ("gevent", "greenlane"))
    assert [part for part in ours if part not in stock] == ["greenlane.hosts.gunicorn.Worker", "--threads", "64"]
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
