"""`greenlane record --pid`: a service that runs is recorded under load and left as it was; others are refused."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.record.command import GREENLANE, environment, greenlane, recorded
from tests.record.test_command_live import until
from tests.trace.table import left

from greenlane.control.client import ask
from greenlane.errors import ControlError
from tests import child
from tests.fixtures import StartProcess

pytestmark = pytest.mark.slow

APPS = "tests.record.attached_apps"
GUNICORN = ("-m", "gunicorn", "--no-control-socket", "-b")
GRANIAN = ("-m", "granian", "--host", "127.0.0.1", "--port", "{port}", "--no-log")
SERVICES = {
    "gthread": (*GUNICORN, "127.0.0.1:{port}", "-k", "gthread", "--threads", "8", f"{APPS}:wsgi"),
    "gevent": (*GUNICORN, "127.0.0.1:{port}", "-k", "gevent", f"{APPS}:wsgi"),
    "uvicorn": ("-m", "uvicorn", "--loop", "asyncio", "--port", "{port}", "--log-level", "warning", f"{APPS}:asgi"),
    "uvloop": ("-m", "uvicorn", "--loop", "uvloop", "--port", "{port}", "--log-level", "warning", f"{APPS}:asgi"),
    "pywsgi": ("-m", APPS, "pywsgi", "{port}"),
    "tornado": ("-m", APPS, "tornado", "{port}"),
    "daphne": ("-m", "daphne", "-b", "127.0.0.1", "-p", "{port}", f"{APPS}:asgi"),
    "granian wsgi": (*GRANIAN, "--interface", "wsgi", f"{APPS}:wsgi"),
    "granian asgi": (*GRANIAN, "--interface", "asginl", "--loop", "asyncio", f"{APPS}:asgi"),
}
PATHS = os.pathsep.join(entry for entry in sys.path if Path(entry, "tests").is_dir())
#: What `docs/guest.md` says that stays behind each of them.
LEFT = {"gthread": "record wsgi", "gevent": "record gevent", "uvicorn": "record asyncio", "uvloop": "record uvloop"}
LEFT.update(pywsgi="record gevent", tornado="record asyncio", daphne="record asyncio")
LEFT.update({"granian wsgi": "record wsgi", "granian asgi": "record asyncio"})


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


REMOTE = hasattr(sys, "remote_exec")
PREPARED = [(name, True) for name in SERVICES] + [(name, False) for name in SERVICES if REMOTE]


@pytest.mark.parametrize(("service", "prepared"), PREPARED)
def test_a_service_under_load_is_recorded_and_left_as_it_was(
    service: str, prepared: bool, tmp_path: Path, control_dir: Path, start_process: StartProcess
) -> None:
    port = child.free_port()
    argv = [sys.executable, *(word.format(port=port) for word in SERVICES[service])]
    listens = {"GREENLANE_CONTROL_DIR": str(control_dir)} if prepared else {}
    running = start_process(argv, cwd=tmp_path, env=environment(**listens, PYTHONPATH=PATHS), port=port)
    with Load(port):
        for _ in range(50):
            get(port, "/load")
    get(port, "/first")
    mapped = mappings(running.pid)
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
    # typing loads that by itself, when a class like a dataclass is first made.
    names = [one for one in [*found["changed"], *found["ours"]] if "typing._lazy_annotationlib" not in one]
    if not prepared:
        assert "greenlane-contr" not in threads_below(running.pid)
    assert left(LEFT[service], names, "out") == []
    assert mappings(running.pid) == mapped
    assert (tmp_path / "1.glr").stat().st_mode & 0o077 == 0


def test_when_it_is_killed_the_service_is_left_as_it_was(
    tmp_path: Path, control_dir: Path, start_process: StartProcess
) -> None:
    port = child.free_port()
    argv = [sys.executable, *(word.format(port=port) for word in SERVICES["gthread"])]
    variables = environment(GREENLANE_CONTROL_DIR=str(control_dir), PYTHONPATH=PATHS)
    service = start_process(argv, cwd=tmp_path, env=variables, port=port)
    get(port, "/first")
    killed = start_process([*GREENLANE, "record", "--pid", str(service.pid), "-o", "r.glr"], cwd=tmp_path)
    killed.wait_output("Ctrl-C ends it")
    assert left(LEFT["gthread"], get(port, "/left")["changed"], "out")
    until(lambda: get(port, "/load") == {} and [*(tmp_path / "r.glr.parts").glob("*.glr")])
    killed.signal(signal.SIGKILL)
    until(lambda: left(LEFT["gthread"], get(port, "/left")["changed"], "out") == [])


def mappings(pid: int) -> dict[int, list[tuple[str, str, str]]]:
    """(file, offset, rights) of libraries that a process has mapped, and of those below it.

    Tables that the linker has made read-only are so again, once calls no longer lead to us.
    """
    rows = [line.split(None, 5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    known = {"libc", "libpython", "python", "_socket", "select", "libssl", "gevent", "uvloop"}
    found = {
        pid: sorted(
            (row[5], row[2], row[1])
            for row in rows
            if len(row) == 6 and re.split(r"[.\d-]", Path(row[5]).name)[0] in known
        )
    }
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        for below in each.read_text().split():
            found |= mappings(int(below))
    return found


def threads_below(pid: int) -> set[str]:
    """Names of the threads of a process and of those below it."""
    tasks = Path(f"/proc/{pid}/task")
    names = {one.read_text().strip() for one in tasks.glob("*/comm")}
    below = [word for each in tasks.glob("*/children") for word in each.read_text().split()]
    return names.union(*(threads_below(int(child)) for child in below))


@pytest.mark.skipif(REMOTE, reason="from CPython 3.14 on it is asked")
def test_who_does_not_let_itself_be_recorded_is_refused_in_words(tmp_path: Path, start_process: StartProcess) -> None:
    source = "import time; print('ready', flush=True); time.sleep(60)"
    running = start_process([sys.executable, "-c", source], cwd=tmp_path, env=environment())
    running.wait_output("^ready$")
    ended = greenlane("record", "--pid", str(running.pid), cwd=tmp_path)
    assert ended.code != 0
    assert "lets itself be recorded" in ended.err and "import greenlane.attachable" in ended.err
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not REMOTE, reason="sys.remote_exec is CPython 3.14's")
@pytest.mark.parametrize(
    ("options", "source", "said"),
    [
        ((), "time.sleep(60)", "a process whose main thread runs Python within 20 s"),
        (("-X", "disable-remote-debug"), "time.sleep(60)", "allows remote debugging"),
    ],
)
def test_who_cannot_be_asked_is_refused_in_words(
    options: tuple[str, ...], source: str, said: str, tmp_path: Path, start_process: StartProcess
) -> None:
    argv = [sys.executable, *options, "-c", f"import time; print('ready', flush=True); {source}"]
    running = start_process(argv, cwd=tmp_path, env=environment())
    running.wait_output("^ready$")
    ended = greenlane("record", "--pid", str(running.pid), cwd=tmp_path)
    assert ended.code != 0 and said in ended.err
    assert os.listdir(tmp_path) == []


def test_a_process_that_is_gone_is_refused(tmp_path: Path) -> None:
    ended = greenlane("record", "--pid", str(2**22 - 3), cwd=tmp_path)
    assert ended.code != 0 and "a process that runs" in ended.err


def _service(tmp_path: Path, control_dir: Path, start_process: StartProcess) -> tuple[Any, int]:
    port = child.free_port()
    argv = [sys.executable, *(word.format(port=port) for word in SERVICES["uvicorn"])]
    env = environment(GREENLANE_CONTROL_DIR=str(control_dir), PYTHONPATH=PATHS)
    running = start_process(argv, cwd=tmp_path, env=env, port=port)
    get(port, "/load")
    get(port, "/first")
    return running, port


def _assert_clean(port: int, pid: int) -> None:
    found = get(port, "/left")
    names = [one for one in [*found["changed"], *found["ours"]] if "typing._lazy_annotationlib" not in one]
    assert left(LEFT["uvicorn"], names, "out") == []
    assert {name for name in threads_below(pid) if name.startswith("greenlane")} == {"greenlane-contr"}


def test_what_fails_half_way_is_taken_out_again(tmp_path: Path, control_dir: Path, start_process: StartProcess) -> None:
    running, port = _service(tmp_path, control_dir, start_process)
    with tempfile.TemporaryDirectory() as taken, socket.socket(socket.AF_UNIX) as another:
        # Its probes are placed when it finds that somebody else has its name there.
        another.bind(f"{taken}/{running.pid}.sock")
        another.listen()
        request = {"do": "attach", "record_folder": str(tmp_path), "control_dir": taken,
                   "record_max_mb": 10, "record_stacks": True}  # fmt: skip
        with pytest.raises(ControlError, match="no other socket of this process id"):
            ask(control_dir / f"{running.pid}.sock", request)
    _assert_clean(port, running.pid)


def test_a_process_that_answers_too_late_is_not_recorded_for_ever(
    tmp_path: Path, control_dir: Path, start_process: StartProcess
) -> None:
    running, port = _service(tmp_path, control_dir, start_process)
    os.kill(running.pid, signal.SIGSTOP)
    argv = [*GREENLANE, "record", "--pid", str(running.pid), "-o", "r.glr"]
    recorder = start_process(argv, cwd=tmp_path, env=environment())

    def asks() -> bool:
        with contextlib.suppress(OSError):
            folder = f"/proc/{recorder.pid}/fd"
            return any(os.readlink(f"{folder}/{fd}").startswith("socket:") for fd in os.listdir(folder))
        return False

    until(lambda: asks() and asks())
    recorder.signal(signal.SIGINT)
    os.kill(running.pid, signal.SIGCONT)
    recorder.wait_exit()
    _assert_clean(port, running.pid)


@pytest.mark.gate
def test_a_recording_of_somebody_else_goes_on(tmp_path: Path, control_dir: Path, start_process: StartProcess) -> None:
    running, port = _service(tmp_path, control_dir, start_process)
    argv = [*GREENLANE, "record", "--pid", str(running.pid), "-o", "first.glr"]
    first = start_process(argv, cwd=tmp_path, env=environment())
    first.wait_output("recording process")
    refused = greenlane("record", "--pid", str(running.pid), "-o", "second.glr", cwd=tmp_path)
    assert refused.code != 0 and "not recorded already" in refused.err
    for _ in range(10):
        get(port, "/load")
    first.signal(signal.SIGINT)
    first.wait_exit()
    assert len([job for job in recorded(tmp_path, "first.glr").jobs if job.route == "GET /load"]) == 10
    _assert_clean(port, running.pid)
