"""Each server answers on loopback, and nothing of it is left: not after its block, nor after its parent's death."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.child import Child
from tests.servers.server import find
from tests.where import ROOT

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

#: Starts a server by name, tells who it is, and waits for its end.
PARENT = """
import signal, sys
from tests import servers
with getattr(servers, sys.argv[1])(*sys.argv[2:]) as server:
    print("started", server.pid if hasattr(server, "pid") else server._process.pid, flush=True)
    signal.pause()
"""
FRONT = "server {{ listen 127.0.0.1:{port}; location / {{ return 200 nginx; }} }}"
SECTION = """
frontend all
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string haproxy
"""
CONFIGURATIONS = {"Nginx": [FRONT], "HAProxy": [SECTION]}
ALL = ["Redis", "Postgres", "RabbitMQ", "HAProxy", "Nginx", "Browser"]


def _family(pid: int) -> list[int]:
    """`pid` and what descends from it."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [
        pid,
        *(grandchild for file in children for child in file.read_text().split() for grandchild in _family(int(child))),
    ]


@pytest.mark.parametrize("name", ALL)
def test_nothing_outlives_the_tests(name: str) -> None:
    with Child([sys.executable, "-c", PARENT, name, *CONFIGURATIONS.get(name, [])], cwd=ROOT) as parent:
        started = parent.wait_output(r"^started (\d+)$|Skipped: (.*)", timeout_s=90)
        if started[2]:
            pytest.skip(started[2])
        family = _family(parent.pid)
        watched = {pid: os.pidfd_open(pid) for pid in family}
        assert int(started[1]) in watched
        parent.signal(9)
        try:
            for pid, fd in watched.items():
                assert select.select([fd], [], [], 15)[0], f"process {pid} of {name} still runs"
        finally:
            for fd in watched.values():
                os.close(fd)


@pytest.mark.parametrize("name", ["Redis", "Postgres", "HAProxy", "Nginx"])
def test_it_stops_and_starts_again_on_its_port(name: str) -> None:
    with getattr(servers, name)(*CONFIGURATIONS.get(name, [])) as server:
        assert server.port < 32768
        server.stop()
        server.stop()
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=1):
            pass
        server.start()
        socket.create_connection(("127.0.0.1", server.port), timeout=1).close()
    assert not server.folder.exists()


def test_redis_keeps_what_it_is_given(redis_url: str) -> None:
    redis = pytest.importorskip("redis")
    with redis.Redis.from_url(redis_url) as client:
        client.set("bike", "7")
        assert client.getdel("bike") == b"7"


def test_postgres_runs_as_somebody_else_than_root() -> None:
    psycopg = pytest.importorskip("psycopg")
    with servers.Postgres("max_connections=7") as server, psycopg.connect(server.url) as connection:
        assert connection.execute("show max_connections").fetchone() == ("7",)
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0


def test_rabbitmq_delivers_and_has_a_port_mapper_of_its_own() -> None:
    kombu = pytest.importorskip("kombu")
    with servers.RabbitMQ(management=True) as server:
        with kombu.Connection(server.url) as connection, connection.SimpleQueue("bikes") as queue:
            queue.put({"bike": 7})
            assert queue.get(timeout=10).payload == {"bike": 7}
        with urllib.request.urlopen(_request(server.management_url + "/api/overview"), timeout=10) as answer:
            assert b"rabbitmq_version" in answer.read()
        family = _family(os.getpid())
        assert 4369 not in _listening(family)
        assert {server.port, server._node.node_port, server._node.mapper_port} <= _listening(family)
        assert all(port < 32768 for port in _listening(_family(server.pid)))


def _request(url: str) -> urllib.request.Request:
    return urllib.request.Request(url.replace("guest:guest@", ""), headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})


def _listening(pids: list[int]) -> set[int]:
    """TCP ports that these processes listen on."""
    inodes = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(os.readlink(fd))
            except OSError:
                continue
    rows = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


@pytest.mark.parametrize("name", ["Nginx", "HAProxy"])
def test_a_front_answers_with_its_configuration(name: str) -> None:
    with getattr(servers, name)(*CONFIGURATIONS[name]) as front:
        with urllib.request.urlopen(front.url, timeout=5) as answer:
            assert answer.read().decode().strip() == name.lower()


PAGE = """<!doctype html><html><head><title>Bikes</title><style>
body { background: #fff } @media (prefers-color-scheme: dark) { body { background: #000 } }
</style></head><body><h1>Seven</h1><button onclick="document.querySelector('h1').innerText = 'Eight'">more</button>
<script>document.body.append(Object.assign(document.createElement("p"), {innerText: "made by script"}));</script>%s
</body></html>"""


@pytest.fixture
def page_file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "page.html"
    path.write_text(PAGE % "")
    yield path


def test_the_browser_sees_what_scripts_made_and_clicks(browser: servers.Browser, page_file: Path) -> None:
    with browser.open(page_file) as page:
        assert page.text("p") == "made by script"
        assert page.count("button") == 1
        page.click("button")
        assert page.text("h1") == "Eight"
        assert "<title>Bikes</title>" in page.html()
        assert page.errors == []
        assert page.requests == [page_file.as_uri()]
        assert page.overflow_px() == 0


def test_the_browser_takes_pictures_in_both_colour_schemes(
    browser: servers.Browser, page_file: Path, tmp_path: Path
) -> None:
    pictures = []
    for dark in (False, True):
        with browser.open(page_file, dark=dark, width=400, height=300) as page:
            pictures.append(page.picture(tmp_path / "page.png"))
            assert (tmp_path / "page.png").read_bytes() == pictures[-1]
            assert page.evaluate("getComputedStyle(document.body).backgroundColor").startswith("rgb(")
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert pictures[0] != pictures[1]


@pytest.mark.parametrize(
    "trouble",
    [
        "<script>throw new Error('broken')</script>",
        "<script>console.error('broken')</script>",
        "<img src='broken.png'>",
        "<script>fetch('https://broken.example/').catch(() => 0)</script>",
    ],
)
def test_the_browser_tells_what_a_page_complained_about(browser: servers.Browser, tmp_path: Path, trouble: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGE % trouble)
    with browser.open(path) as page:
        page.evaluate("new Promise(done => setTimeout(done, 50))")
        assert any("broken" in error for error in page.errors), page.errors


def test_what_is_not_installed_is_skipped_with_the_command() -> None:
    with pytest.raises(pytest.skip.Exception, match="make test-system"):
        find("no-such-program", "/no/such/*/folder", name="Nothing")


def test_the_newest_of_several_versions_is_taken(tmp_path: Path) -> None:
    for version in ("9", "15"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "initdb").touch()
    assert find(f"{tmp_path}/*/initdb", name="Nothing") == f"{tmp_path}/15/initdb"


def test_no_folder_is_left(tmp_path: Path) -> None:
    source = PARENT.replace("signal.pause()", "pass")
    for name in ("Redis", "Nginx"):
        done = subprocess.run(
            [sys.executable, "-c", source, name, *CONFIGURATIONS.get(name, [])],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if "Skipped" in done.stderr:
            pytest.skip(done.stderr)
        assert done.returncode == 0, done.stderr
        assert not list(tmp_path.iterdir())
