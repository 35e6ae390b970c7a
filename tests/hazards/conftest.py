"""Hazards: what real threads survive, they survive with permits.

Each runs with permits off (which shows that the scenario itself is sound), observe and on.
"""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from greenlane import bootstrap
from tests.hazards import scenario

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.timeout(40, method="thread"))


@pytest.fixture(scope="package")
def process() -> Iterator["bootstrap.Running"]:
    """Greenlane in this process, for all hazards; the mode is switched live."""
    running = scenario.start("off")
    yield running
    running.stop()


@pytest.fixture(params=scenario.MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def running(process: "bootstrap.Running", mode: str) -> Iterator["bootstrap.Running"]:
    """Greenlane in the test's mode; afterwards every permit is back and nobody waits."""
    scenario.new_chapter()
    process.set_mode(mode)
    yield process
    scenario.settled(process)
    process.set_mode("off")


@pytest.fixture
def run_jobs(running: "bootstrap.Running") -> Callable[..., list[Any]]:
    """`scenario.run_jobs` in the test's mode."""

    def run(
        functions: Sequence[Callable[[], Any]], route: str | Sequence[str] = scenario.HEAVY, **options: Any
    ) -> list[Any]:
        return scenario.run_jobs(running, functions, route, **options)

    return run


@pytest.fixture
def script(mode: str, tmp_path: Path) -> Callable[..., str]:
    """Runs a scenario as a program in the test's mode; its stdout. It exits in time, with this code, saying nothing."""

    def run(source: str, *, exit_code: int = 0, within_s: float = 25.0, quiet: bool = True) -> str:
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(source))
        environment = {
            **os.environ,
            "HAZARD_MODE": mode,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            # CPython 3.12 warns that fork beside threads is dangerous: that is the hazard.
            "PYTHONWARNINGS": "ignore::DeprecationWarning",
        }
        done = subprocess.run(
            [sys.executable, str(file)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
        talk = f"exit code {done.returncode}\nstdout:\n{done.stdout}\nstderr:\n{done.stderr}"
        assert done.returncode == exit_code, talk
        if quiet:
            assert done.stderr == "", talk
        return done.stdout

    return run
