"""`make ecosystem` tells what differs by name: what fails, hangs or dies with us only. It leaves no process behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.ecosystem.run import differing, known, load
from tests.where import ROOT

INSIDE = ROOT / "tests" / "ecosystem" / "inside"
#: "greenlane" is loaded in neither mode but with us.
PYTEST = """
import os, subprocess, sys, time
ours = "greenlane" in sys.modules
def test_passes(): pass
def test_fails_anyway(): assert False
def test_fails(): assert not ours
def test_hangs():
    if ours: time.sleep(60)
def test_dies():
    if ours: os.abort()
def test_comes_after(): pass
def test_leaves_a_child():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "left-behind"], start_new_session=True)
"""
UNITTEST = """
import sys, unittest
ours = "greenlane" in sys.modules
class Some(unittest.TestCase):
    def test_passes(self): pass
    def test_fails_anyway(self): self.fail()
    def test_fails(self): self.assertFalse(ours)
    def test_is_skipped(self):
        if ours: self.skipTest("so")
unittest.main()
"""


def test_only_what_passes_stock_can_differ() -> None:
    stock = {"a": "passed", "b": "failed", "c": "passed", "d": "passed"}
    assert differing(stock, {"a": "passed", "b": "hung", "c": "skipped"}) == {"c", "d"}


def test_each_suite_says_how_it_is_run_and_pins_its_source() -> None:
    pins = (ROOT / "tests" / "ecosystem" / "sources.txt").read_text("utf-8")
    for suite in load():
        assert bool(suite.pytest) != bool(suite.unittest), suite.name
        assert not suite.source or f"{suite.source}==" in pins, suite.name
    assert set(known()) <= {suite.name for suite in load()}


@pytest.mark.slow
def test_what_differs_is_told_by_name_in_each_mode_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PYTEST, "utf-8")
    (tmp_path / "it.py").write_text(UNITTEST, "utf-8")
    suites = tmp_path / "suites.toml"
    environ = f"environ = {{ PYTHONPATH = {json.dumps(str(INSIDE))} }}\n"
    a = f'[a]\npytest = ["{tmp_path}/test_it.py"]\nstall_s = 8\n{environ}'
    b = f'[b]\nunittest = ["{tmp_path}/it.py"]\n{environ}'
    suites.write_text(a + b, "utf-8")
    command = [sys.executable, "-m", "tests.ecosystem.run", "--suites", suites, "--python", sys.executable, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 1, done.stderr
    rows = {(row["suite"], row["mode"]): row for row in json.loads(done.stdout)["rows"]}
    assert (rows["a", "stock"]["passed"], rows["a", "stock"]["failed"]) == (6, 1)
    for mode in ("record", "permits"):
        found = {name.rpartition("::")[2]: why for name, why in rows["a", mode]["differing"].items()}
        assert found == {"test_fails": "failed", "test_hangs": "hung", "test_dies": "died of signal 6"}, done.stderr
        assert rows["a", mode]["passed"] == 3
        found = {name.rpartition(".")[2]: why for name, why in rows["b", mode]["differing"].items()}
        assert found == {"test_fails": "failed", "test_is_skipped": "skipped"}, done.stderr
    assert not any("left-behind" in line for line in _command_lines())


@pytest.mark.slow
def test_an_interrupt_ends_the_suite_and_its_children(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PYTEST.replace("if ours: ", "").replace("os.abort()", "pass"), "utf-8")
    suites = tmp_path / "suites.toml"
    environ = f"environ = {{ PYTHONPATH = {json.dumps(str(INSIDE))} }}\n"
    suites.write_text(f'[i]\npytest = ["{tmp_path}/test_it.py", "-k", "child or hangs"]\n{environ}', "utf-8")
    command = [sys.executable, "-m", "tests.ecosystem.run", "--suites", suites, "--python", sys.executable]
    report = ROOT / "target" / "ecosystem" / "logs" / "i-stock.report"
    report.unlink(missing_ok=True)  # an earlier run's
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as runner:
        until_s = time.monotonic() + 30
        while not (report.exists() and b"hangs" in report.read_bytes()) and time.monotonic() < until_s:
            time.sleep(0.05)
        runner.send_signal(2)
        assert runner.wait(20) == 130
    assert not any(str(tmp_path).encode() in line for line in map(str.encode, _command_lines()))


def _command_lines() -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found
