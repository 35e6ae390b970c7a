"""`greenlane serve` that measures: its number, its lane `apart`, and what top and Prometheus say of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.served import COMMAND, Served, until

from greenlane.control.client import ask
from greenlane.errors import ControlError
from greenlane_serve.haproxy.routing import FILE, change
from greenlane_serve.haproxy.runtime import Runtime

pytestmark = [pytest.mark.system, pytest.mark.slow]

APPS_OF = {"wsgi": "mixed", "asgi": "looped"}
SETTINGS = """
workers = 2
metrics_path = "/metrics"
control_dir = "{folder}/c"
"""


# Of each test: one that is made again meets a tree that has measured nothing yet.
@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("live")
    with Served(folder, "mixed:app", SETTINGS.format(folder=folder), "--kind", "wsgi") as served:
        yield served


@contextlib.contextmanager
def load(served: Served, *paths: str) -> Iterator[None]:
    """Two clients of each path, one request after the other."""
    over = threading.Event()

    def run(path: str) -> None:
        while not over.is_set():
            served.get(path)

    clients = [threading.Thread(target=run, args=(path,)) for path in paths for _ in range(2)]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        over.set()
        for client in clients:
            client.join()


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, timeout=30)


def top(served: Served, *flags: str) -> str:
    done = command("top", "--once", "--control-dir", f"{served.folder}/c", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def status(served: Served) -> dict[str, Any]:
    """What the tree says of itself; {} before it does."""
    with contextlib.suppress(ControlError):
        answer = ask(served.folder / "c" / f"{served.process.pid}.sock", {"do": "show"})
        found: dict[str, Any] = answer["serve"]
        return found
    return {}


def test_it_measures_assigns_and_tells(served: Served) -> None:
    with load(served, "/burn", "/nap"):
        until(lambda: status(served).get("routes"))
        until(lambda: status(served)["groups"][0]["by"] == "model")
        until(lambda: served.get("/burn").split()[1:] == ["apart"])
        seen = status(served)
        page = served.get("/metrics")
    assert served.get("/nap").split()[1:] == []
    (group,) = seen["groups"]
    assert group["group"] == "shared" and group["serving"] == group["workers"] == 2
    assert group["at_once"] < 8, "a request computes for some 15 ms, and sleeps for less"
    assert re.fullmatch(r"model: [\d.]+ ms CPU and [\d.]+ ms I/O a request; this many keep a worker busy", group["why"])
    assert [row["route"] for row in seen["routes"]] == ["GET /burn"]
    lanes = {row["lane"]: row for row in seen["lanes"]}
    assert lanes["apart"]["places"] == 2 * group["at_once"], "nothing is kept from it"
    assert lanes["(rest)"]["in_progress"] is None
    assert {row["pid"] for row in seen["workers"]} == set(served.workers())
    at_once = {row.at_once for row in served.runtime.rows("shared") if row.server != "BACKEND"}
    assert len(at_once) == 1 and at_once.pop() < 8
    assert 'greenlane_serve_at_once{group="shared",by="model"}' in page
    assert 'greenlane_serve_lane_places{lane="apart",group="shared"}' in page
    assert set(re.findall(r'greenlane_jobs_total\{.*pid="(\d+)"', page)) == {str(pid) for pid in served.workers()}
    assert page.count("# TYPE greenlane_jobs_total ") == 1


def test_a_route_that_is_asked_for_while_the_map_changes_has_its_lane(served: Served) -> None:
    """HAProxy had remembered the answer from between the new rows and their commit."""

    class Meanwhile(Runtime):
        def ask(self, command: str) -> str:
            if command.startswith("commit map"):
                assert served.get("/nap").split()[1:] == []
            return super().ask(command)

    change(served.run_folder() / FILE, [("^GET/nap$", "apart")], Meanwhile(served.runtime.path))
    assert served.get("/nap").split()[1:] == ["apart"]


@pytest.mark.gate
def test_top_shows_tables(served: Served) -> None:
    until(lambda: status(served))
    text = top(served)
    for column in ("at_once", "waiting", "why", "places", "state"):
        assert column in text
    assert "(rest)" in text and "serving" in text
    (row,) = [row for row in json.loads(top(served, "--json"))["rows"] if "serve" in row]
    assert row["pid"] == served.process.pid
    assert row["serve"].keys() == status(served).keys()


def test_one_command_says_what_is_set_and_why(served: Served) -> None:
    until(lambda: status(served))
    bind = f"127.0.0.1:{served.port}"
    told = command("serve", "--status", "--bind", bind)
    assert bind in told.stdout and "haproxy" in told.stdout and "(rest)" in told.stdout
    (row,) = json.loads(command("serve", "--status", "--json", "--bind", bind).stdout)["rows"]
    assert row["pid"] == served.process.pid
    assert row.keys() - {"pid"} == status(served).keys()
    assert row["front"]["reloads"] == 0
    nobody = command("serve", "--status", "--bind", "127.0.0.1:1")
    assert nobody.returncode == 1
    assert "bind='127.0.0.1:1', expected the address of a `greenlane serve`" in nobody.stderr


@pytest.mark.parametrize(("kind", "killed"), [("wsgi", False), ("wsgi", True), ("asgi", True)])
def test_what_goes_leaves_nothing(tmp_path: Path, kind: str, killed: bool) -> None:
    places = Path("/dev/shm"), Path(tempfile.gettempdir())
    before = {folder for place in places for folder in place.glob("greenlane-*")}
    # A worker that hangs is killed a second after `stop_s`: before the test gives up.
    with Served(tmp_path, f"{APPS_OF[kind]}:app", "workers = 2\nstop_s = 5\n", "--kind", kind) as served:
        until(lambda: "see it: greenlane top --control-dir" in served.process.output)
        found = {folder for place in places for folder in place.glob("greenlane-*")} - before
        ours = {folder for folder in found if holds(folder, served.process.pid)}
        assert len(ours) == 2, "its own, the control sockets"
        if killed:
            os.kill(served.process.pid, signal.SIGKILL)
            until(lambda: not any(folder.exists() for folder in ours))
    assert not any(folder.exists() for folder in ours)


def holds(folder: Path, pid: int) -> bool:
    """Whether a process has this folder open: others may come and go beside us."""
    with contextlib.suppress(OSError):
        return any(Path(os.readlink(fd)) == folder for fd in Path(f"/proc/{pid}/fd").iterdir())
    return False
