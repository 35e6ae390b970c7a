"""One start a process; wrong set-up is named; nothing stays behind."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from greenlane import phase
from greenlane.errors import GreenlaneError
from greenlane.probes import native
from greenlane.settings import Settings
from greenlane.wiring import process

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Whatever a test starts is stopped."""
    yield
    running = process.running()
    if running is not None:
        running.stop()


def test_starting_twice_gives_the_same() -> None:
    assert process.start(Settings(), host="test") is process.start(Settings(mode="off"), host="test")


def test_stopping_gives_everything_back() -> None:
    before = (socket.socket.recv, time.sleep, phase.leave)
    running = process.start(Settings(), host="test")
    assert (socket.socket.recv, time.sleep) == before[:2] and phase.leave is not before[2]
    assert "time.sleep" in native.seen()
    running.stop()
    assert native.seen() == ()
    assert (socket.socket.recv, time.sleep, phase.leave) == before
    assert process.running() is None


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    before = (socket.socket.recv, phase.leave)
    broken = tmp_path / "control"
    broken.write_text("broken")
    with pytest.raises(GreenlaneError):
        process.start(Settings(control_dir=str(broken)), host="test")
    assert (socket.socket.recv, phase.leave) == before
    assert process.running() is None


def test_canaries_are_the_asked_share_of_the_workers() -> None:
    for share, expected in [(1.0, 8), (0.5, 4), (0.25, 2), (0.1, 0), (0.0, 0)]:
        settings = Settings(canary_frac=share)
        modes = []
        for index in range(8):
            running = process.start(settings, host="test", worker_index=index)
            modes.append(running.mode())
            running.stop()
        assert modes.count("on") == expected and modes.count("observe") == 8 - expected


def test_a_monkey_patched_process_is_refused_with_the_remedy() -> None:
    source = (
        "from gevent import monkey; monkey.patch_all()\n"
        "from greenlane.wiring import process\n"
        "from greenlane.settings import Settings\n"
        "process.start(Settings(), host='test')\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "HostError" in done.stderr and "hint:" in done.stderr


def test_a_forked_child_serves_by_itself(tmp_path: Path, run_python: RunPython) -> None:
    run_python(
        "import os, sys, time\n"
        "from greenlane.wiring import process\n"
        "from greenlane.settings import Settings\n"
        "running = process.start(Settings(control_dir=sys.argv[1]), host='test')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    running.open({'REQUEST_METHOD': 'GET', 'PATH_INFO': '/child'}, time.monotonic_ns())\n"
        "    running.close()\n"
        "    assert [row.route for row in running.learned()] == ['GET /child']\n"
        "    assert os.path.exists(f'{sys.argv[1]}/{os.getpid()}.sock')\n"
        "    running.stop()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n",
        str(tmp_path / "control"),
    )
