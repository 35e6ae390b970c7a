"""coverage and debugpy themselves, on programs whose phases are stopped."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import child

PROGRAM = Path(__file__).with_name("stopped_program.py")


def present(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


pytestmark = [
    pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is CPython 3.12's"),
    pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads compute side by side"),
    pytest.mark.slow,
]


def stops(arguments: Sequence[str | Path], folder: Path, **env: str) -> int:
    """Runs the program; how often it was stopped."""
    run = subprocess.run([sys.executable, *arguments], cwd=folder, env={**os.environ, **env}, capture_output=True,
                         text=True, timeout=60, check=False)  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = re.search(r"^stopped (\d+)$", run.stdout, re.MULTILINE)
    assert found, run.stdout + run.stderr
    return int(found[1])


@pytest.mark.skipif(not present("coverage"), reason="coverage is not installed")
@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
def test_coverage_says_the_same_of_a_program_that_is_stopped(tmp_path: Path, core: str) -> None:
    def covered(mode: str) -> tuple[int, list[int], list[int], list[list[int]]]:
        arguments = ["-m", "coverage", "run", *(["--branch"] if core != "sysmon" else []), "--include", str(PROGRAM)]
        number = stops([*arguments, PROGRAM, mode], tmp_path, COVERAGE_CORE=core)
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", f"{mode}.json"], cwd=tmp_path, check=True,
                       timeout=60)  # fmt: skip
        (said,) = json.loads((tmp_path / f"{mode}.json").read_text())["files"].values()
        return number, said["executed_lines"], said["missing_lines"], said.get("executed_branches", [])

    alone, beside = covered("off"), covered("on")
    assert alone[0] == 0 and beside[0] >= 1
    assert beside[1:] == alone[1:]
    assert len(alone[2]) >= 1  # `never`


@pytest.mark.skipif(not present("debugpy"), reason="debugpy is not installed")
def test_a_program_under_debugpy_is_stopped_and_ends(tmp_path: Path) -> None:
    listen = ["-X", "frozen_modules=off", "-m", "debugpy", "--listen", f"127.0.0.1:{child.free_port()}"]
    assert stops([*listen, PROGRAM, "on"], tmp_path) >= 1
