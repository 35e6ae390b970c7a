"""A latency test for pytest: fails with the report's sentence when a route waited longer than it may.

    @pytest.mark.greenlane(route="GET /bikes", wait_p99_ms=5, beside="GET /report")
    def test_bikes_do_not_wait_for_reports() -> None: ...

What is recorded: the test's own process, with servers in threads, and the Python processes that the test and its
fixtures of function scope start, as under `greenlane record`. Nothing of it stays afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from greenlane_tools.reader.recording import Recording
    from greenlane_tools.reader.rows import Job

__all__ = ["Goal"]

_MARK: Final = "greenlane"
_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
_MAX_MB: Final = 512


@dataclass(frozen=True)
class Goal:
    """What a mark asks for.

    Args:
        route: as reports name it.
        wait_p99_ms: limit of the wait at p99, with fewer than 100 requests of the longest one; None = no limit.
        p99_ms: likewise its latency, from arrival to answer.
        beside: only its requests that overlap one of this route count; "" = all.
    """

    route: str
    wait_p99_ms: float | None = None
    p99_ms: float | None = None
    beside: str = ""

    def __post_init__(self) -> None:
        if not self.route or (self.wait_p99_ms is None and self.p99_ms is None):
            raise pytest.UsageError("@pytest.mark.greenlane: expected a route, and wait_p99_ms, p99_ms or both")

    def jobs(self, recording: Recording) -> list[Job]:
        """Those that count."""
        jobs = [job for job in recording.jobs if job.route == self.route]
        if not self.beside:
            return jobs
        others = [(job.arrival_ns, job.end_ns) for job in recording.jobs if job.route == self.beside]
        return [job for job in jobs if any(job.arrival_ns < end and begin < job.end_ns for begin, end in others)]

    def told(self, jobs: Sequence[Job]) -> list[tuple[str, float, float]]:
        """(what, measured, allowed) in ms."""
        measured = {
            "waited": (self.wait_p99_ms, [sum(job.wait_ns.values()) for job in jobs]),
            "took": (self.p99_ms, [job.latency_ns for job in jobs]),
        }
        rows = measured.items()
        return [(what, _p99_ms(values), allowed) for what, (allowed, values) in rows if allowed is not None]


class _Recorded:
    """One test's processes while they are recorded."""

    def __init__(self, goal: Goal) -> None:
        from greenlane.hosts.observed import import_trigger
        from greenlane.record.recorder import SITE

        self.goal = goal
        self.folder = Path(tempfile.mkdtemp(prefix="greenlane-"))
        self.kept = False
        self._before = dict(os.environ)
        path = os.environ.get("PYTHONPATH")
        os.environ.update(
            PYTHONPATH=os.pathsep.join(filter(None, (SITE, path))),
            GREENLANE_RECORD_FOLDER=str(self.folder),
            GREENLANE_CONTROL_DIR=str(self.folder),
            GREENLANE_RECORD_ON="true",
            GREENLANE_RECORD_STACKS="true",
            GREENLANE_RECORD_MAX_MB=str(_MAX_MB),
        )
        own: Mapping[str, object] = {
            "record_folder": str(self.folder),
            "control_dir": str(self.folder),
            "record_max_mb": _MAX_MB,
            "record_stacks": True,
        }
        import_trigger.attach(own)

    def read(self) -> Recording:
        """What happened so far."""
        from greenlane.control.client import ask, processes
        from greenlane.errors import GreenlaneError
        from greenlane_tools.reader.recording import open_recording

        for process in processes(self.folder):
            with contextlib.suppress(GreenlaneError):
                ask(process.socket, {"do": "show"})  # It is in the file when it answers.
        return open_recording(self.folder)

    def end(self) -> None:
        """Put everything back."""
        import shutil

        from greenlane.hosts.observed import import_trigger
        from greenlane.record.recorder import ENDED

        (self.folder / ENDED).touch()
        import_trigger.detach()
        for name in os.environ.keys() - self._before.keys():
            del os.environ[name]
        os.environ.update(self._before)
        if not self.kept:
            shutil.rmtree(self.folder, ignore_errors=True)


_recorded: Final = pytest.StashKey[_Recorded]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(route, wait_p99_ms=None, p99_ms=None, beside=''): "
        "record the test, and fail when requests of the route waited or took longer at p99",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin to record before the test's fixtures start anything."""
    mark = item.get_closest_marker(_MARK)
    if mark is not None:
        try:
            goal = Goal(*mark.args, **mark.kwargs)
        except TypeError as error:
            raise pytest.UsageError(f"@pytest.mark.{_MARK}: {error}") from None
        item.stash[_recorded] = _Recorded(goal)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that went well is held to its goal."""
    yield
    recorded = item.stash.get(_recorded, None)
    if recorded is not None and (said := _judged(item, recorded)):
        pytest.fail(said, pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """After the fixtures, recording has ended."""
    try:
        yield
    finally:
        recorded = item.stash.get(_recorded, None)
        if recorded is not None:
            del item.stash[_recorded]
            recorded.end()


def _judged(item: pytest.Item, recorded: _Recorded) -> str:
    """Why it fails; "" = it does not."""
    from greenlane.errors import RecordingError

    goal = recorded.goal
    beside = f" beside {goal.beside}" if goal.beside else ""
    try:
        recording = recorded.read()
    except RecordingError as error:
        return f"nothing was recorded: {error}"
    jobs = goal.jobs(recording)
    if not jobs:
        seen = ", ".join(sorted({job.route for job in recording.jobs})) or "none"
        return f"no request of {goal.route}{beside} was recorded; routes that were: {seen}"
    lines, failed = [], False
    for what, measured_ms, allowed_ms in goal.told(jobs):
        over = measured_ms > allowed_ms
        failed |= over
        said = (
            f"{goal.route} {what} {measured_ms:.3g} ms at p99{beside}, allowed {allowed_ms:g} ms ({len(jobs)} requests)"
        )
        item.user_properties.append((_MARK, f"{'FAILED' if over else 'ok'}: {said}"))
        lines += [said] * over
    if not failed:
        return ""
    recorded.kept = True
    from greenlane_tools.report.brief import brief_lines
    from greenlane_tools.report.study import study_of
    from greenlane_tools.report.subject import of_route

    study = study_of(of_route(recording, goal.route))
    return "\n".join([*lines, *brief_lines(study, str(recorded.folder))])


def _p99_ms(values_ns: Sequence[int]) -> float:
    from greenlane_tools.report.split import nearest

    return nearest(sorted(values_ns), 0.99) / 1e6


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line a goal; on GitHub, in the job's summary too."""
    reports = [each for of in terminalreporter.stats.values() for each in of if getattr(each, "when", "") == "call"]
    rows = [(each.nodeid, text) for each in reports for name, text in each.user_properties if name == _MARK]
    if not rows:
        return
    terminalreporter.section("greenlane: latency")
    for nodeid, text in rows:
        terminalreporter.write_line(f"{text}  {shlex.quote(nodeid)}")
    if summary := os.environ.get(_SUMMARY):
        with contextlib.suppress(OSError), open(summary, "a", encoding="utf-8") as out:
            out.write("| latency test | |\n|---|---|\n")
            out.writelines(f"| `{nodeid}` | {text.replace('|', '/')} |\n" for nodeid, text in rows)
