"""A recorded program forks as it did: no warning that it did not have, none is missing, no thread too many."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.record.command import environment

RECORDED = """
import os, sys, threading, warnings
from greenlane.wiring import recording as wired
recording = wired.start_recording()
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""

# (source, expected output)
ALONE = """
for _ in range(20):
    fork()
with warnings.catch_warnings(record=True) as heard:
    for action in ("error", "always"):
        warnings.simplefilter(action)
        fork()
print(*heard or ["none"])
"""
THREADED = """
def heard():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        fork()
    return ["multi-threaded" in str(each.message) for each in heard]

before = heard()
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
while_two = heard()
done.set()
thread.join()
print(before, while_two)
"""
OFF = """
recording.record(False)
fork()
recording.end()
fork()
print("none")
"""

pytestmark = pytest.mark.slow


def run(source: str, folder: Path, *flags: str) -> str:
    env = environment(GREENLANE_RECORD_FOLDER=str(folder / "parts"), GREENLANE_CONTROL_DIR=str(folder / "control"))
    argv = [sys.executable, *flags, "-c", RECORDED + source]
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout.strip()


@pytest.mark.parametrize("action", ["error", "always"])
@pytest.mark.parametrize("source", [ALONE, OFF], ids=["on", "off"])
def test_a_program_without_threads_of_its_own_gets_no_warning(source: str, action: str, tmp_path: Path) -> None:
    assert run(source, tmp_path, "-W", action) == "none"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython warns from 3.12 on")
def test_a_program_with_threads_gets_its_own_warning(tmp_path: Path) -> None:
    assert run(THREADED, tmp_path) == "[] [True]"
