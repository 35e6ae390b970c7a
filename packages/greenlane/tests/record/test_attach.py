"""`greenlane record --pid`: a service that runs is recorded under load and left as it was; others are refused."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.record.command import environment, greenlane, recorded
from tests.trace.table import left

from tests import child
from tests.fixtures import StartProcess

pytestmark = pytest.mark.slow

APPS = "tests.record.attached_apps"
GUNICORN = ("-m", "gunicorn", "--no-control-socket", "-b")
SERVICES = {
    "gthread": (*GUNICORN, "127.0.0.1:{port}", "-k", "gthread", "--threads", "8", f"{APPS}:wsgi"),
    "gevent": (*GUNICORN, "127.0.0.1:{port}", "-k", "gevent", f"{APPS}:wsgi"),
    "uvicorn": ("-m", "uvicorn", "--loop", "asyncio", "--port", "{port}", "--log-level", "warning", f"{APPS}:asgi"),
    "uvloop": ("-m", "uvicorn", "--loop", "uvloop", "--port", "{port}", "--log-level", "warning", f"{APPS}:asgi"),
}
PATHS = os.pathsep.join(entry for entry in sys.path if Path(entry, "tests").is_dir())
#: What `docs/guest.md` says that stays behind each of them.
LEFT = {"gthread": "record wsgi", "gevent": "record gevent", "uvicorn": "record asyncio", "uvloop": "record uvloop"}


@pytest.fixture
def control_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gl"))  # short: it holds sockets
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Load:
    """Four clients that ask one after the other, until it ends."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stop = threading.Event()
        self.answered = 0
        self.failed: list[str] = []
        self._clients = [threading.Thread(target=self._ask) for _ in range(4)]

    def __enter__(self) -> Load:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for client in self._clients:
            client.join()

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                get(self._port, "/load")
                self.answered += 1
            except OSError as error:
                self.failed.append(repr(error))


def get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_under_load_is_recorded_and_left_as_it_was(
    service: str, tmp_path: Path, control_dir: Path, start_process: StartProcess
) -> None:
    port = child.free_port()
    argv = [sys.executable, *(word.format(port=port) for word in SERVICES[service])]
    running = start_process(
        argv, cwd=tmp_path, env=environment(GREENLANE_CONTROL_DIR=str(control_dir), PYTHONPATH=PATHS), port=port
    )
    with Load(port):
        for _ in range(50):
            get(port, "/load")
    get(port, "/first")
    for number in (1, 2):  # and once more, later
        with Load(port) as load:
            ended = greenlane(
                *("record", "--pid", str(running.pid), "--seconds", "1", "-o", f"{number}.glr"), cwd=tmp_path
            )
            assert ended.code == 0, ended.err
        assert not load.failed and load.answered > 20
        jobs = [job for job in recorded(tmp_path, f"{number}.glr").jobs if job.route == "GET /load"]
        assert len(jobs) > 20
        assert sum(job.io_ns.get("sleep", 0) for job in jobs) >= 0.003e9 * len(jobs)
    found = get(port, "/left")
    names = [*found["changed"], *found["ours"]]
    assert left(LEFT[service], names, "out") == []
    assert (tmp_path / "1.glr").stat().st_mode & 0o077 == 0


def test_who_does_not_let_itself_be_recorded_is_refused_in_words(tmp_path: Path, start_process: StartProcess) -> None:
    source = "import time; print('ready', flush=True); time.sleep(60)"
    running = start_process([sys.executable, "-c", source], cwd=tmp_path, env=environment())
    running.wait_output("^ready$")
    ended = greenlane("record", "--pid", str(running.pid), cwd=tmp_path)
    assert ended.code != 0
    assert "lets itself be recorded" in ended.err and "import greenlane.attachable" in ended.err
    assert os.listdir(tmp_path) == []


def test_a_process_that_is_gone_is_refused(tmp_path: Path) -> None:
    ended = greenlane("record", "--pid", str(2**22 - 3), cwd=tmp_path)
    assert ended.code != 0 and "a process that runs" in ended.err
