"""A CPython that is not known, or has no GIL: a recording goes on without what depends on that, and says so once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

PRETENDED = """
import sys

class Version(tuple):
    major, minor, micro = 3, 99, 0

sys.version_info = Version((3, 99, 0, "final", 0))
"""
PROGRAM = """
import threading, time
from greenlane.record import job
from greenlane.settings import load
from greenlane.wiring.recording import start_recording
from greenlane_tools.reader import open_recording

folder = {folder!r}
recorded = start_recording(load({{"record_folder": folder}}, environ={{}}))
over = False


def spin():
    while not over:
        sum(range(1000))


spinner = threading.Thread(target=spin)
spinner.start()
with job("asks"):
    for _ in range(20):
        time.sleep(0.001)
over = True
spinner.join()
recorded.end()
asks = max((each for each in open_recording(folder).jobs if each.route == "asks"), key=lambda each: each.end_ns)
parts = sum(asks.io_ns.values()) + sum(asks.wait_ns.values())
assert asks.end_ns - asks.arrival_ns == asks.cpu_ns + parts + asks.residual_ns
print(asks.wait_ns.get("gil", 0) > 0)
"""


@pytest.mark.slow
def test_an_unknown_version_runs_without_waits_for_the_gil_and_says_so_once(
    run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    def ran(pretended: str, name: str) -> Any:
        return run_python(pretended + PROGRAM.format(folder=str(tmp_path / name)))

    assert ran("", "known").stdout.split() == ["True"]
    first, second = ran(PRETENDED, "unknown"), ran(PRETENDED, "unknown")
    assert [first.stdout.split(), second.stdout.split()] == [["False"], ["False"]]
    assert "CPython 3.99 is newer" in first.stderr and "waits for the GIL are not seen" in first.stderr
    assert "newer" not in second.stderr
    note = tmp_path / "unknown" / "skipped-newer"
    assert note.read_text().startswith("CPython 3.99 is newer")


WITHOUT_A_GIL = """
import sys

sys._is_gil_enabled = lambda: False
"""
LOOP = """
import asyncio
from greenlane.settings import load
from greenlane.wiring.recording import start_recording

before = asyncio.BaseEventLoop.call_soon.__code__
recorded = start_recording(load({{"record_folder": {folder!r}}}, environ={{}}))
print(asyncio.BaseEventLoop.call_soon.__code__ is before)
recorded.end()
"""


def test_without_a_gil_no_probe_is_placed_whose_tables_it_guards(
    run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    def ran(pretended: str, name: str) -> Any:
        return run_python(pretended + LOOP.format(folder=str(tmp_path / name)))

    assert ran("", "with").stdout.split() == ["False"]
    first, second = ran(WITHOUT_A_GIL, "without"), ran(WITHOUT_A_GIL, "without")
    assert [first.stdout.split(), second.stdout.split()] == [["True"], ["True"]]
    assert first.stderr.count("has no GIL") == 1 and "GIL" not in second.stderr
