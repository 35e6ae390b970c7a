"""`greenlane try`: the bundled service and somebody's own, wrong input, Ctrl-C, and a narrow terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from greenlane_tools.cli.tryout.numbers import lines
from greenlane_tools.cli.tryout.service import Route
from greenlane_tools.lab.processes import descendants
from greenlane_tools.lab.samples import FAILED, Samples

_COMMAND = [sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())", "try"]
_SHOP = """
import time

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/slow":
        sum(range(400_000))
    time.sleep(0.01)
    start_response("200 OK" if path in ("/slow", "/quick") else "404 Not Found", [])
    return [b"ok"]

async def loop(scope, receive, send):
    pass
"""


def tried(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "40", "NO_COLOR": "1"}
    return subprocess.run(
        [*_COMMAND, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=90, check=False
    )


def samples(*latencies_ms: float, status: int = 200) -> Samples:
    count = len(latencies_ms)
    done = (np.array(latencies_ms) * 1e6).astype(np.int64)
    zeros = np.zeros(count, np.int64)
    statuses = np.full(count, status, np.int16)
    workers, work = np.zeros(count, np.int32), np.zeros(count)
    return Samples(("/a",), zeros.astype(np.uint16), zeros, zeros, done, done, statuses, workers, work)


def test_numbers_fit_a_narrow_terminal() -> None:
    found = {"stock": samples(100, 700), "greenlane": samples(100, 200)}
    shown = list(lines(found, [Route("/" + "a" * 40), Route("/b")], 500, 40))
    assert max(map(len, shown)) <= 40
    assert shown[1].split()[-4:] == ["50", "%", "100", "%"]
    assert shown[2].split()[-4:] == ["100", "ms", "100", "ms"]


def test_requests_that_fail_are_never_answered() -> None:
    found = {"stock": samples(1, 2, status=FAILED)}
    assert [line.split()[-1] for line in lines(found, [Route("/a")], 500, 80)][2:] == ["never", "never"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        (("shopp:app", "--route", "/a"), "APP='shopp:app', expected MODULE:NAME that gunicorn can import (",
         "run it in the folder of the module"),
        (("shop:apple", "--route", "/a"), "Failed to find attribute 'apple' in 'shop'.",
         "run it in the folder of the module"),
        (("shop", "--route", "/a"), "Failed to find attribute 'application' in 'shop'.", "write shop:app, if"),
        (("./shop.py:app", "--route", "/a"), "APP='./shop.py:app', expected MODULE:NAME", "write shop:app, if"),
        (("shop.app", "--route", "/a"), "APP='shop.app', expected MODULE:NAME", "write shop:app, if"),
        (("shop:app",), "expected one path at least", "greenlane try shop:app --route /quick --route /slow"),
        (("shop:app", "--route", "quick"), "--route='quick', expected a path that begins with '/'", "greenlane try"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, ...], says: str, hint: str
) -> None:
    (tmp_path / "shop.py").write_text(_SHOP)
    done = tried(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert f"hint: {hint}" in done.stderr


@pytest.mark.slow
@pytest.mark.system
def test_ones_own_application_is_compared_and_explained(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(_SHOP)
    missing = tried(tmp_path, "shop:app", "--route", "/none")
    assert missing.returncode == 2
    assert "--route='/none', expected one that the application answers (it said 404)" in missing.stderr
    asynchronous = tried(tmp_path, "shop:loop", "--route", "/quick")
    assert asynchronous.returncode == 2
    assert "hint: ask it by hand; an ASGI application is for `greenlane record -- uvicorn APP`" in asynchronous.stderr
    done = tried(tmp_path, "shop:app", "--route", "/quick", "--route", "/slow", "--seconds", "2", "-o", "shop.glr")
    assert done.returncode == 0, done.stderr
    assert "/slow p99" in done.stdout
    assert "page: shop.html" in done.stdout
    assert "GET /slow" in (tmp_path / "shop.html").read_text()
    assert max(map(len, done.stdout.splitlines())) <= 40
    assert [line[:9] for line in done.stderr.splitlines() if "|" in line] == ["stock    ", "greenlane"]


@pytest.mark.slow
@pytest.mark.system
def test_ctrl_c_ends_every_process(tmp_path: Path, start_process: Any) -> None:
    running = start_process([*_COMMAND, "--seconds", "60"], cwd=tmp_path)
    running.wait_output("stock gunicorn")
    until = time.monotonic() + 30
    # The command, `greenlane record`, gunicorn's master and worker, the load.
    while len(pids := descendants(running.pid)) < 5 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(pids) >= 5
    running.signal(signal.SIGINT)
    assert running.wait_exit(timeout_s=30) == 130
    assert "stopped; all has ended" in running.output
    while any(map(_runs, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [pid for pid in pids if _runs(pid)] == []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
