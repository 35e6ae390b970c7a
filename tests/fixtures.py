"""Fixtures that every test can use: a free port, a real server process, a program in an interpreter of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import hypothesis
import pytest

from tests import child


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores Ctrl-C, and so would every program that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Else an example that takes 200 ms fails its test, and a busy machine takes its core away for longer.
    hypothesis.settings.register_profile("no-deadline", deadline=None)
    hypothesis.settings.load_profile("no-deadline")


StartProcess = Callable[..., child.Child]
RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 below 32768 that is not in use."""
    return child.free_port()


@pytest.fixture
def free_ports() -> Callable[[], int]:
    """Gives another free port at each call."""
    return child.free_port


@pytest.fixture
def start_process() -> Iterator[StartProcess]:
    """Start real processes: `start_process(argv, env=..., cwd=..., port=...)`; all are ended with the test.

    With `port` it returns once that port accepts connections.
    """
    with contextlib.ExitStack() as running:

        def start(
            argv: Sequence[str | Path],
            *,
            env: Mapping[str, str] | None = None,
            cwd: str | Path | None = None,
            port: int | None = None,
            timeout_s: float = 20,
        ) -> child.Child:
            started = running.enter_context(child.Child(argv, env=env, cwd=cwd))
            if port is not None:
                started.wait_port(port, timeout_s=timeout_s)
            return started

        yield start


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run source in a fresh interpreter with warnings as errors, in an empty folder; fails the test unless it exits 0.

    Why: what patches the process (probes, monkey patches) or looks at `sys.modules` must not meet the other tests.
    """

    def run(source: str, *arguments: str, timeout_s: float = 40) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", source, *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
