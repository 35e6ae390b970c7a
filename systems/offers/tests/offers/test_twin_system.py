"""The pricing service in Go is the one in Flask: asked every endpoint, both do and say the same. As processes, too: how
they end, what they say of wrong settings."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from offers import table
from offers.build import PROGRAMS, program
from offers.site import Pricing, Site, asked
from offers.twin import CONTENDERS, Answer, counted
from offers.twin import asked as answered
from offers.work import WORKS

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("go") is None, reason="no Go: scripts/toolchain go names the command"),
]

KNOWN = table.read(table.FOLDER)
#: The same for both, so that iterations can be compared; so few that a request is mostly waiting.
RATES = {kind: 5.0 + number for number, kind in enumerate(WORKS)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("twin"), iterations={"python": RATES, "go": RATES}) as running:
        yield running


@pytest.fixture(scope="module")
def twins(site: Site) -> list[Pricing]:
    return [site.pricing(name) for name in CONTENDERS]


@pytest.mark.gate
def test_every_endpoint_does_and_says_the_same_in_both(twins: list[Pricing]) -> None:
    endpoints = KNOWN.endpoints.values()
    answers = counted([one.address for one in twins], endpoints, at_once=24)
    assert len(answers) >= 100
    for name, (flask, go) in answers.items():
        assert flask.status == 200, (name, flask)
        assert flask == go, name
        # Both could leave a step out.
        assert flask.told.get("x-calls", "") == ",".join(KNOWN.endpoints[name].calls)
        assert bool(flask.told.get("x-work")) == bool(KNOWN.endpoints[name].cpu_ms)


@pytest.mark.parametrize("w", ["0.001", "1.37", "99.999", "0", "101", "nan", "x", ""])
def test_w_is_understood_alike(twins: list[Pricing], w: str) -> None:
    endpoint = KNOWN.endpoints["zone_price_level"]
    flask, go = (answered(one.address, endpoint, w) for one in twins)
    # What is wrong is said in each language's own quotes.
    if flask.status == 400:
        assert (go.status, set(go.body)) == (400, set(flask.body))
    else:
        assert flask == go


def test_an_upstream_s_calls_are_counted_for_whom_they_are_made(site: Site, twins: list[Pricing]) -> None:
    endpoint = KNOWN.endpoints["bikes_price"]
    for one in twins:
        before = site.upstream_calls().get(endpoint.name, 0)
        assert answered(one.address, endpoint, "0.01").status == 200
        assert site.upstream_calls()[endpoint.name] == before + len(endpoint.calls)


def test_offerservice_makes_all_modes_of_a_journey_with_either(site: Site, twins: list[Pricing]) -> None:
    offers = site.offerservice(twins[0])
    bodies = []
    for one in twins:
        offers.point_at(one)
        # The cap may pass on a busy machine: what was made must be right, and what was not is named.
        found = asked(f"{offers.url}/offers?region=hills&id=r1")
        bodies.append({offer.pop("mode"): _without_time(offer) for offer in found["offers"]})
        assert len(found["offers"]) + len(found["missing"]) == 6
    for mode in bodies[0].keys() & bodies[1].keys():
        assert bodies[0][mode] == bodies[1][mode]
    rows = {row["mode"]: row for row in offers.counts()["modes"] if row["region"] == "hills"}
    assert all(row["asked"] == 2 for row in rows.values())
    assert [mode for mode, row in rows.items() if row["priced"]] == ["bikes", "scooters"]
    assert list(rows) == ["bikes", "scooters", "rideshare", "shared", "transit", "walk"]


def _without_time(offer: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in offer.items() if name != "ms"}


def test_programs_end_well_when_they_are_asked_to(site: Site) -> None:
    pricing = site.pricing("go", "ending")
    offers = site.offerservice(pricing)
    asked(f"{offers.url}/offers?region=hills&id=r1")
    assert offers.process.end(30.0) == 0
    assert pricing.processes[0].end(30.0) == 0


def test_ctrl_c_ends_a_program_with_130(site: Site) -> None:
    offers = site.offerservice(site.pricing("go", "interrupted"))
    offers.process.signal(signal.SIGINT)
    assert offers.process.wait(30.0) == 130


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_names_the_setting_that_is_wrong(name: str, tmp_path: Path) -> None:
    for options, says in (
        (["-listen", "nowhere", "-table", str(table.FOLDER)], '-listen="nowhere", expected host:port\nhint: '),
        (["-table", str(tmp_path)], f'-table="{tmp_path}", expected the folder of the offers table'),
        (["-sideways"], 'options="-sideways", expected options as listed by -help'),
    ):
        done = _run(name, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"start {name}: {says}")


def test_a_port_that_is_taken_is_a_wrong_setting(twins: list[Pricing]) -> None:
    done = _run("upstream", "-listen", twins[0].address, "-table", str(table.FOLDER))
    assert done.returncode == 2
    assert "expected an address that is free here" in done.stderr


def _run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OFFERS_ITERATIONS": '{"burn":1,"geometry":1,"json":1,"regex":1,"sort":1,"template":1}'}
    return subprocess.run(
        [program(name), *options], env=env, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip


def test_answers_that_differ_are_told() -> None:
    from offers.twin import different

    same = Answer(200, {"value": 1}, {"x-work": "json=5", "x-calls": "eta"})
    assert different({"a": [same, same._replace(told={"x-work": "json=70", "x-calls": "eta"})]}) == []
    for other in (same._replace(status=502), same._replace(body={}), same._replace(told={**same.told, "x-calls": ""})):
        [line] = different({"a": [same, other]})
        assert line.startswith("a: gevent answered ")
