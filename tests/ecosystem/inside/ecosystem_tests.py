"""In the process of a suite: tells when each test begins and how it ends; with permits, each test is a job.

A plugin of pytest (`-p ecosystem_tests`), and a front of what runs unittest (`python -m ecosystem_tests MODULE …`).
Without ECOSYSTEM_PERMITS nothing of Greenlane is imported here. The report is opened for each line: suites close, count
and inherit descriptors.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import runpy
import socket  # noqa: F401 # in each mode: with its import the recording begins
import sys
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Lines of JSON: {"begin": name}, {"end": name, "outcome": ...}; at the end {"jobs": number} with
#: permits. "at": when.
REPORT = os.environ.get("ECOSYSTEM_REPORT", "")
#: Names of tests that are not run: they were already, or others are asked for. One a line.
SKIP = os.environ.get("ECOSYSTEM_SKIP", "")
#: Names of the only tests that are run, one a line; "" = all.
ONLY = os.environ.get("ECOSYSTEM_ONLY", "")
#: Which host's middleware switches the permits on: "wsgi" or "asgi"; "" = none does.
PERMITS = os.environ.get("ECOSYSTEM_PERMITS", "")
#: With permits: whether each thread that a test starts runs a job as well.
THREADS = bool(os.environ.get("ECOSYSTEM_THREADS"))

ROUTE = "a test of the ecosystem"
_PID = os.getpid()
_now = time.monotonic  # tests replace it
_running: Any = None
_opened = 0


def tell(**line: object) -> None:
    """Append a line; a forked child tells nothing."""
    if REPORT and os.getpid() == _PID:
        fd = os.open(REPORT, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, json.dumps({**line, "at": _now()}).encode() + b"\n")
        finally:
            os.close(fd)


def start() -> None:
    """Switch permits on as an application does that wraps itself, with every phase of a job asking for one."""
    global _running
    if PERMITS and _running is None:
        if PERMITS == "asgi":
            from greenlane.hosts import asgi as host
        else:
            from greenlane.hosts import wsgi as host
        from greenlane.wiring import process

        host.Greenlane(_application)
        _running = process.running()
        _running.permits.pin(ROUTE, "heavy")
        if THREADS:
            _give_threads_jobs()


def stop() -> None:
    """Say how many tests were jobs: a run in which none was has shown nothing."""
    if _running is not None:
        tell(jobs=_opened)


@contextlib.contextmanager
def job() -> Iterator[None]:
    """Run a test as a job of this thread, if permits are on."""
    global _opened
    opened = _running is not None and _running.open_task(ROUTE, time.monotonic_ns(), 0)
    _opened += bool(opened)
    try:
        yield
    finally:
        if opened and _running.permits.active():  # in a forked child there may be none
            _running.close()


def _give_threads_jobs() -> None:
    original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined] # below what tests replace

    def _bootstrap_inner(self: threading.Thread) -> None:
        with job():
            original(self)

    threading.Thread._bootstrap_inner = _bootstrap_inner  # type: ignore[attr-defined]


def _application(*_arguments: Any) -> Any:
    raise AssertionError("nobody calls this application")


def _names(path: str) -> frozenset[str]:
    return frozenset(Path(path).read_text(encoding="utf-8").splitlines()) if path else frozenset()


def _wanted(name: str) -> bool:
    return name not in _names_to_skip and (not ONLY or name in _only_names)


_names_to_skip, _only_names = _names(SKIP), _names(ONLY)

# --- pytest -----------------------------------------------------------------------------------------------------------

if "pytest" in sys.modules:  # the interpreter's own tests do without it
    import pytest

    _RANKS = ("passed", "skipped", "failed")
    _outcomes: dict[str, str] = {}

    def pytest_configure(config: Any) -> None:
        start()

    def pytest_unconfigure(config: Any) -> None:
        stop()

    def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
        left_out = [item for item in items if not _wanted(item.nodeid)]
        items[:] = [item for item in items if _wanted(item.nodeid)]
        config.hook.pytest_deselected(items=left_out)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(item: Any, nextitem: Any) -> Any:
        tell(begin=item.nodeid)
        with job():
            done = yield
        tell(end=item.nodeid, outcome=_outcomes.pop(item.nodeid, "failed"))
        return done

    def pytest_runtest_logreport(report: Any) -> None:
        if report.outcome == "rerun":
            _outcomes.pop(report.nodeid, None)
            return
        # A test may be run with several reports; the worst of them counts.
        worst = max(_outcomes.get(report.nodeid, "passed"), report.outcome, key=_RANKS.index)
        _outcomes[report.nodeid] = worst


# --- unittest ---------------------------------------------------------------------------------------------------------


def _tell_of_unittest() -> None:
    original = unittest.TestCase.run
    inside: list[str] = []

    def run(self: unittest.TestCase, result: Any = None) -> Any:
        name = self.id()
        if inside or result is None or os.getpid() != _PID:  # a test that runs tests
            return original(self, result)
        if not _wanted(name):
            return result
        inside.append(name)
        tell(begin=name)
        before = _counts(result)
        try:
            with job():
                return original(self, result)
        finally:
            inside.clear()
            failed, skipped = (now - then for now, then in zip(_counts(result), before, strict=True))
            outcome = "failed" if failed else "skipped" if skipped else "passed"
            tell(end=name, outcome=outcome)

    unittest.TestCase.run = run  # type: ignore[method-assign]


def _counts(result: Any) -> tuple[int, int]:
    return len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses), len(result.skipped)


def main() -> None:
    """Run the module, or the file, of the first argument as Python would, with the others."""
    del sys.argv[0]
    faulthandler.enable()  # the runner ends what hangs with SIGABRT
    start()
    _tell_of_unittest()
    try:
        _run()
    finally:
        if os.getpid() == _PID:
            stop()


def _run() -> None:
    target = sys.argv[0]
    if target.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(target)))
        runpy.run_path(target, run_name="__main__")
    else:
        runpy.run_module(target, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
