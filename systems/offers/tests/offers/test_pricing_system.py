"""pricingservice and its upstreams as processes: stock gunicorn with gevent, and Greenlane's worker."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from greenlane_tools.lab.processes import Child, free_port, wait_for_port
from offers import table
from offers.upstreams.server import latency_ms, reply
from offers.work import WORKS

pytestmark = [pytest.mark.system, pytest.mark.slow]

KNOWN = table.read(table.FOLDER)
SERVERS = {"gevent": "gevent", "greenlane": "greenlane.hosts.gunicorn.Worker"}
#: Iterations in a millisecond: so few that a request is mostly waiting.
RATES = {kind: 5.0 + number for number, kind in enumerate(WORKS)}


@dataclass(frozen=True)
class Answer:
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Running:
    """Ports: of the upstreams, and of pricing by contender."""

    upstreams: int
    pricing: dict[str, int]


def ask(port: int, path: str) -> Answer:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return Answer({name.lower(): value for name, value in answer.headers.items()}, json.load(answer))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("offers")
    ports = Running(free_port(), {name: free_port() for name in SERVERS})
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path),
        "OFFERS_ITERATIONS": json.dumps(RATES),
        "OFFERS_UPSTREAMS": ",".join(f"{name}=127.0.0.1:{ports.upstreams}" for name in KNOWN.upstreams),
    }
    names = ["--names", ",".join(KNOWN.upstreams)]
    commands = {ports.upstreams: ["offers.upstreams", "--port", str(ports.upstreams), *names]}
    for name, port in ports.pricing.items():
        options = [
            "--worker-class",
            SERVERS[name],
            "--bind",
            f"127.0.0.1:{port}",
            "--no-control-socket",
            "--keep-alive",
            "75",
        ]
        commands[port] = ["gunicorn", *options, "offers.pricing.application:app"]
    with (place / "said").open("w+b") as log:
        children = {port: Child([sys.executable, "-m", *one], env, log, place) for port, one in commands.items()}
        try:
            for port, child in children.items():
                assert wait_for_port(port, child, 60), (place / "said").read_text()
            yield ports
        finally:
            for child in children.values():
                child.end()


def priced(endpoint: table.Endpoint, port: int) -> Answer:
    return ask(port, f"{endpoint.path}?id=r1-{endpoint.name}&region=hills&w=0.25")


@pytest.mark.gate
def test_every_endpoint_does_what_the_table_says_under_every_server(running: Running) -> None:
    endpoints = list(KNOWN.endpoints.values())
    with ThreadPoolExecutor(24) as pool:
        answers = {name: list(pool.map(lambda one: priced(one, port), endpoints))  # noqa: B023
                   for name, port in running.pricing.items()}  # fmt: skip
    for endpoint, *of_each in zip(endpoints, *answers.values(), strict=True):
        iterations: dict[str, int] = {}
        for step in endpoint.steps:
            if isinstance(step, table.Compute):
                count = max(1, int(step.cpu_ms * 0.25 * RATES[step.work]))
                iterations[step.work] = iterations.get(step.work, 0) + count
        work = ",".join(f"{kind}={count}" for kind, count in sorted(iterations.items()))
        for answer in of_each:
            assert answer.headers.get("x-work", "") == work
            assert answer.headers.get("x-calls", "") == ",".join(endpoint.calls)
            assert answer.headers.get("server-timing", "").count(";dur=") == len(endpoint.calls)
        assert of_each[0].body == of_each[1].body


def test_an_offer_has_a_price_the_eta_and_the_route_of_its_own_calls(running: Running) -> None:
    endpoint = KNOWN.endpoints["bikes_price"]
    offer = priced(endpoint, running.pricing["gevent"]).body
    at = {name: f"r1-bikes_price-{number}" for number, name in enumerate(endpoint.calls, 1)}
    assert set(offer) == {"price_cents", "eta_s", "route"}
    assert 100 <= offer["price_cents"] < 1000
    assert offer["eta_s"] == reply("eta", at["eta"])["eta_s"]
    assert offer["route"] == reply("routing", at["routing"])["route"]


def test_an_upstream_takes_no_less_than_its_law_and_tells_by_its_own_clock(running: Running) -> None:
    for name, upstream in KNOWN.upstreams.items():
        answer = ask(running.upstreams, f"/{name}?id=r9-1&region=hills&endpoint=test")
        assert answer.body == reply(name, "r9-1")
        # asyncio's timers may come a clock's tick early.
        assert float(answer.headers["x-upstream-ms"]) >= latency_ms(upstream, "r9-1") - 1


def test_upstreams_count_who_asked(running: Running) -> None:
    before = ask(running.upstreams, "/counts").body["calls"].get("scooters_price", 0)
    priced(KNOWN.endpoints["scooters_price"], running.pricing["greenlane"])
    assert ask(running.upstreams, "/counts").body["calls"]["scooters_price"] == before + 4


def _connections(port: int) -> int:
    """Established connections to a port of this machine, as their callers have them."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2] == f"0100007F:{port:04X}" and row[3] == "01" for row in rows)


def test_connections_to_upstreams_are_kept(running: Running) -> None:
    endpoint, port = KNOWN.endpoints["zone_price_level"], running.pricing["gevent"]
    priced(endpoint, port)
    before = _connections(running.upstreams)
    for _ in range(8):
        priced(endpoint, port)
    assert 1 <= _connections(running.upstreams) <= before
