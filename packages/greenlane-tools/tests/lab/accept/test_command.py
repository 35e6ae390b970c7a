"""`greenlane lab accept`: usage, and an end by Ctrl-C that leaves nobody behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from greenlane_tools.lab.accept.contenders import SERVERS
from greenlane_tools.lab.processes import descendants

GREENLANE = str(Path(sys.executable).with_name("greenlane"))


def environment(root: Path) -> Path:
    """A finished environment whose interpreter is this one: nothing is installed."""
    folder = root / SERVERS["gunicorn"].recipe.folder
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    versions = {name: metadata.version(name) for name in ("gunicorn", "gevent")}
    (folder / "ready.json").write_text(json.dumps(versions))
    return root


@pytest.mark.slow
def test_wrong_names_are_usage_errors(tmp_path: Path):
    for arguments in (["--servers", "gunicorm"], ["--sockets", "udp"], ["--workers", "0"]):
        done = subprocess.run(
            [GREENLANE, "lab", "accept", "--out", str(tmp_path), *arguments],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 2 and "hint:" in done.stderr, done.stderr


@pytest.mark.system
def test_ctrl_c_ends_every_server(tmp_path: Path):
    command = [GREENLANE, "lab", "accept", "--servers", "gunicorn", "--sockets", "unix", "--out", str(tmp_path / "out")]
    running = subprocess.Popen(
        [*command, "--environments", str(environment(tmp_path))], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True, env=os.environ,
    )  # fmt: skip
    with running:
        try:
            found = _whole_service(running)
            running.send_signal(signal.SIGINT)
            code = running.wait(30)
            said = running.stderr.read() if running.stderr else ""
        finally:
            running.kill()
    assert code == 130, said
    until_s = time.monotonic() + 20
    while (left := [pid for pid in found if _runs(pid)]) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not left


def _runs(pid: int) -> bool:
    """It is there, and no zombie that waits for its new parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _whole_service(running: subprocess.Popen[str]) -> list[int]:
    """Itself, gunicorn's master and four workers."""
    until_s = time.monotonic() + 40
    while time.monotonic() < until_s:
        found = descendants(running.pid)
        if len(found) >= 6:
            return found
        assert running.poll() is None, running.stderr.read() if running.stderr else ""
        time.sleep(0.05)
    raise AssertionError("no service within 40 s")
