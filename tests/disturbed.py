"""Runs tests again that a busy machine may disturb: one run that passes is enough.

Which: those with a real server (`system`), and those that assert shares or times of a run of their own (`measured`).
The second run is in the same process, with new fixtures of the test. If it fails too, scripts/testing.py runs the test
alone in a new process, there again up to twice: neither neighbours count there, nor what an earlier run left in a
server of the module. A defect that is there every time fails all of them. Each run that failed is printed at the end,
with its reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

#: Further runs in this process of a test whose first one failed.
MORE_RUNS: Final = 1
_NAME: Final = "disturbed"


def register(config: pytest.Config) -> None:
    """From pytest_configure of each folder of tests, whichever of them are run together."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(Disturbed(), _NAME)


class Disturbed:
    """A plugin of pytest: who is run again, and what is said of it."""

    def __init__(self) -> None:
        #: Test and reason of each run that did not hold.
        self.told: list[tuple[str, str]] = []
        #: Test -> how long all its runs took, with set-up and teardown.
        self.seconds: dict[str, float] = {}
        self.may_be_disturbed: set[str] = set()
        #: Those of them that failed each time.
        self.failed: set[str] = set()
        #: Everything else that failed: that is final.
        self.final: set[str] = set()

    @pytest.hookimpl(trylast=True)  # after those that mark their folder's tests
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("system") or item.get_closest_marker("measured"):
                if not item.get_closest_marker("flaky"):  # else it says itself when it may be run again
                    self.may_be_disturbed.add(item.nodeid)
                item.add_marker(pytest.mark.flaky(reruns=MORE_RUNS))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call":
            item.stash[WRONG] = report.failed
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if str(report.outcome) == "rerun":
            self.told.append((report.nodeid, report.longreprtext))
        elif report.failed and report.nodeid in self.may_be_disturbed:
            self.failed.add(report.nodeid)
        elif report.failed:
            self.final.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.final.add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.told:
            terminalreporter.section(f"repeated: {len(self.told)}")
        for test, reason in self.told:
            terminalreporter.write_line(f"{test}\n{reason}\n")
        folder = os.environ.get("TESTS_TOLD")
        worker = os.environ.get("PYTEST_XDIST_WORKER")
        if folder and not worker and Path(folder).is_dir():  # of scripts/testing.py, which adds them up
            said = {
                "seconds": self.seconds,
                "again": [test for test, _ in self.told],
                "failed": sorted(self.failed),
                "final": sorted(self.final),
            }
            Path(folder, f"{os.getpid()}.json").write_text(json.dumps(said), encoding="utf-8")


#: Whether a test's last run did not hold.
WRONG: Final = pytest.StashKey[bool]()
