"""What decides whether `make test` and `make test-system` are green: scripts/testing.py with tests/disturbed.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.testing import MOST_ALONE, Ended, repeated_alone
from tests.where import ROOT

PASSED = Ended(0, {"seconds": {}, "again": [], "failed": [], "final": []})


def failed(*tests: str, final: tuple[str, ...] = (), code: int = 1) -> Ended:
    return Ended(code, {"seconds": {}, "again": [], "failed": [*tests], "final": [*final]})


@pytest.mark.parametrize(
    ("ended", "alone"),
    [
        ([PASSED, Ended(5, PASSED.said)], []),
        ([failed("b"), PASSED, failed("a", "b")], ["a", "b"]),
        # Anything else that is wrong is final, and so is the whole.
        ([failed("a"), failed(final=("c",))], []),
        ([failed("a", final=("c",))], []),
        ([failed("a"), Ended(-9, None)], []),
        ([failed("a"), Ended(-1, None)], []),
        ([failed("a"), Ended(1, None)], []),
        ([failed("a"), Ended(0, None)], []),
        ([failed("a"), failed(code=2)], []),
        ([failed("a"), failed("b", code=2)], []),
        ([failed("a"), failed()], []),
        ([failed(*map(str, range(MOST_ALONE)))], sorted(map(str, range(MOST_ALONE)))),
        ([failed(*map(str, range(MOST_ALONE + 1)))], []),
    ],
)
def test_only_failures_of_tests_that_may_be_disturbed_are_decided_alone(ended: list[Ended], alone: list[str]) -> None:
    assert repeated_alone(ended) == alone


def test_a_run_that_told_nothing_has_not_passed_whatever_its_exit_code() -> None:
    assert not Ended(0, None).passed
    assert not Ended(5, None).passed


MAY_BE = "@pytest.mark.system\n"
BROKEN = """
def test_it(request): request.config.pluginmanager.register(Broken())
def test_later(): pass
class Broken:
  def pytest_runtest_logstart(self):
"""
#: Source of a module of tests; further options of pytest's; exit code, and a part of what is printed.
CASES = {
    "what is left in the process, and a server that did not start": (
        """
runs = []
@pytest.fixture(scope="module")
def server():
    if not ONCE.exists():
        raise OSError("did not start")
@pytest.mark.system
def test_it():
    runs.append(1)
    assert ONCE.exists() and len(runs) == 1
@pytest.mark.measured
def test_set_up(server): pass
def test_later():
    ONCE.touch()
""",
        "",
        0,
        "== alone, in a new process: 3",
    ),
    "one fails each time": (
        MAY_BE + "def test_it(): assert False",
        "",
        1,
        "== failed: exit code 1\n   test_case.py::test_it",
    ),
    "no test fails, but what one left": (
        "def test_it(request): request.config.add_cleanup(lambda: 1 / 0)",
        "",
        1,
        "== failed: exit code 1\n   after its tests: ZeroDivisionError: division by zero",
    ),
    "it cannot be collected": ("import no_such_module", "", 1, "== failed: exit code 2\n   test_case.py"),
    "pytest is killed": (
        MAY_BE + "def test_it(): os.kill(os.getpid(), 9)",
        "",
        1,
        "== failed: pytest itself, exit code -9",
    ),
    "pytest fails once": (
        BROKEN + "    if not ONCE.exists(): ONCE.touch(); raise OSError('of pytest')\n",
        "",
        0,
        "INTERNALERROR> OSError: of pytest",
    ),
    "pytest fails each time": (BROKEN + "    raise OSError\n", "", 1, "== failed: pytest itself, exit code 3"),
    "a process of xdist's is killed": (
        "def test_it(): os.kill(os.getpid(), 9)",
        "-p xdist -n 1",
        1,
        "== failed: exit code 1\n   test_case.py::test_it",
    ),
}
#: Runs test_case.py beside a part whose failure is decided alone, where it passes.
RUNNER = """
import os, sys
from scripts import testing
pytest = [sys.executable, "-m", "pytest", "-q"]
limit_s, *options = sys.argv[1:]
parts = [[*pytest, *options, "test_case.py"], [*pytest, "test_neighbour.py"]]
sys.exit(testing.in_turn([parts], float(limit_s)))
"""
HEAD = "import os, pathlib, time, pytest\nONCE = pathlib.Path(__file__).with_suffix('.once')\n"
NEIGHBOUR = """
@pytest.mark.system
def test_that_passes_alone():
    assert ONCE.exists()
def test_later():
    ONCE.touch()
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_part_is_green_if_what_failed_passes_alone_and_nothing_else_is_wrong(case: str, tmp_path: Path) -> None:
    source, options, code, said = CASES[case]
    done = run(tmp_path, source, *options.split())
    assert said in done.stdout
    assert done.returncode == code, done.stdout


@pytest.mark.slow
def test_at_the_limit_what_runs_is_interrupted_and_says_what_has_failed(tmp_path: Path) -> None:
    done = run(tmp_path, MAY_BE + "def test_other(): assert False\ndef test_it(): time.sleep(600)", limit_s=6)
    assert "== ended at the limit of 6 s" in done.stdout
    assert done.returncode == 1


def run(folder: Path, source: str, *options: str, limit_s: float = 600) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.fixtures"]\n')
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = -p pytest_rerunfailures -p pytest_timeout\nmarkers =\n    system: .\n    measured: .\n"
    )
    (folder / "test_case.py").write_text(HEAD + source)
    (folder / "test_neighbour.py").write_text(HEAD + NEIGHBOUR)
    (folder / "told").mkdir()
    # Not what pytest and xdist tell the processes that they start: these are not their workers.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-c", RUNNER, str(limit_s), *options],
        cwd=folder,
        env={
            **outside,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TESTS_TOLD": str(folder / "told"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
