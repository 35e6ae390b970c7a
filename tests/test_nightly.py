"""What `make nightly` says of tests that fail always, and by chance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.where import ROOT

CASES = """
import pathlib
once = pathlib.Path(__file__).with_name("once")
def test_by_chance():
    before = once.exists()
    once.touch()
    assert before
def test_always(): assert False
def test_never(): pass
"""
RUN = """
import sys
from scripts import nightly
nightly.MAKE_PARTS.clear()
sys.exit(nightly.main([], {"cases": sys.argv[1:]}))
"""


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize(
    ("options", "code", "table"),
    [
        ([], 1, ["   1 of 2  test_cases.py::test_by_chance", "   3 of 3  test_cases.py::test_always"]),
        (["-k", "not always"], 0, ["   1 of 2  test_cases.py::test_by_chance"]),
        (["-k", "never"], 0, []),
        (["--no-such-option"], 1, ["   1 of 1  cases: pytest itself, exit code 4"]),
    ],
)
def test_each_test_that_failed_is_in_the_table_with_its_runs(
    options: list[str], code: int, table: list[str], tmp_path: Path
) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")
    # Not what pytest and xdist tell the processes that they start: these are not their workers.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *options],
        cwd=tmp_path,
        env={**outside, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    said = done.stdout.partition("== failed, of how many runs\n")[2]
    assert (sorted(said.splitlines()), done.returncode) == (sorted(table), code), done.stdout + done.stderr
