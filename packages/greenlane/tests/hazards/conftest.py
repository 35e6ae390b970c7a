"""Hazards: what real threads survive, they survive with permits.

Each runs with permits off (which shows that the scenario itself is sound), observe and on.
"""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.hazards import scenario

from greenlane.wiring.process import Running
from tests.where import IMPORT_PATH

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.timeout(90, method="thread"))
            if "script" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.slow)  # an interpreter is started


@pytest.fixture(scope="package")
def process() -> Iterator[Running]:
    """Greenlane in this process, for all hazards; the mode is switched live."""
    running = scenario.start("off")
    yield running
    running.stop()


# `on` is where a hazard shows; without permits, and watching, each runs too where there is time for it.
@pytest.fixture(params=["on", *(pytest.param(mode, marks=pytest.mark.slow) for mode in scenario.MODES if mode != "on")])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def running(process: Running, mode: str) -> Iterator[Running]:
    """Greenlane in the test's mode; afterwards every permit is back and nobody waits."""
    scenario.new_chapter()
    process.set_mode(mode)
    yield process
    scenario.settled(process)
    process.set_mode("off")


@pytest.fixture
def run_jobs(running: Running) -> Callable[..., list[Any]]:
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
            "PYTHONPATH": os.pathsep.join([IMPORT_PATH, *filter(None, sys.path)]),
            # CPython 3.12 warns that fork beside threads is dangerous: that is the hazard.
            "PYTHONWARNINGS": "ignore::DeprecationWarning",
        }
        process = subprocess.Popen(
            [sys.executable, str(file)],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                out, err = process.communicate(timeout=within_s)
            except subprocess.TimeoutExpired:
                _end_group(process.pid)
                out, err = process.communicate()
                err += f"\nstill running after {within_s} s"
            finally:
                _end_group(process.pid)  # children that a failed scenario left behind
        talk = f"exit code {process.returncode}\nstdout:\n{out}\nstderr:\n{err}"
        assert process.returncode == exit_code, talk
        if quiet:
            assert err == "", talk
        return out

    return run


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
