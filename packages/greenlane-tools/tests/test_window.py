"""A part of a recording by the clock on the wall."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import pytest
from tests.record.command import record

from greenlane.cli.output import Output
from greenlane.cli.progress import Bar
from greenlane.errors import RecordingError, SettingsError
from greenlane_tools.reader.recording import open_recording
from greenlane_tools.reader.window import Window, duration_s, moment_of

NOON_S = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC).timestamp()


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "5d", "-5m", "five"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as"):
        duration_s(text)


@pytest.mark.parametrize(
    ("text", "hours"),
    [("14:02", 2 + 2 / 60), ("23:00", 11), ("00:30", -11.5), ("9:00:36", -3 + 0.01), ("2026-11-24T12:00", 24)],
)
def test_a_time_of_day_is_the_nearest_one(text: str, hours: float) -> None:
    assert moment_of(text, NOON_S) == pytest.approx(NOON_S + hours * 3600)


def test_another_zone_is_said_with_it() -> None:
    assert moment_of("2026-11-23T14:00+02:00", 0) == NOON_S


@pytest.mark.slow
def test_a_part_has_the_jobs_of_its_time_as_the_whole_has_them(tmp_path: Path) -> None:
    ended = record("import time\nfor number in range(400): work(f'job {number % 5}', times=2)", cwd=tmp_path)
    assert ended.code == 0, ended.err
    whole = open_recording(tmp_path / "r.glr")
    by_job = {job.job: job for job in whole.jobs}
    begun_ns, ended_ns = min(job.arrival_ns for job in whole.jobs), max(job.end_ns for job in whole.jobs)
    about = whole.processes[0].about
    offset_ns = int(str(about["started_unix_ns"])) - int(str(about["started_ns"]))

    def at(ns: int) -> str:
        return datetime.datetime.fromtimestamp((ns + offset_ns) / 1e9, datetime.UTC).isoformat()

    assert ended_ns - begun_ns > 4e9
    middle = (begun_ns + 1_500_000_000, begun_ns + 3_000_000_000)
    for window, (from_ns, to_ns) in {
        Window(last_s=1.5): (ended_ns - 1_500_000_000, ended_ns),
        Window(since=at(middle[0]), until=at(middle[1])): middle,
    }.items():
        part = open_recording(tmp_path / "r.glr", window)
        # Written five times a second: what is at the edges may be in or out.
        found, edge_ns = {job.job: job for job in part.jobs}, 500_000_000
        inside = [job for job in whole.jobs if from_ns + edge_ns < job.arrival_ns and job.end_ns < to_ns - edge_ns]
        assert inside and [found[job.job] for job in inside] == inside
        assert all(from_ns - edge_ns < by_job[number].arrival_ns < to_ns + edge_ns for number in found)
        assert part.processes[0].about["started_ns"] == about["started_ns"]
        assert not part.unfinished
    with pytest.raises(RecordingError, match="a time of which something was recorded"):
        open_recording(tmp_path / "r.glr", Window(since="1999-01-01T00:00", until="1999-01-01T00:01"))
    with pytest.raises(SettingsError, match="--from"):
        open_recording(tmp_path / "r.glr", Window(since="noon"))


# --- The bar on stderr: when it is shown, and what stays of it where stderr is no terminal.


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _said(err: io.StringIO, *calls: tuple[float, float, str]) -> str:
    """What is written where the bar is called at these seconds with these parts and stages, and ended."""
    at_s = [0.0]
    bar = Bar(Output(io.StringIO(), err), "planning", lambda: at_s[0])
    for now_s, part, stage in calls:
        at_s[0] = now_s
        bar(part, stage)
    bar.end()
    return err.getvalue()


def test_off_a_terminal_a_long_stage_says_its_quarters_and_a_short_one_nothing() -> None:
    calls = [(1, 0.1, "trying"), (3, 0.5, "trying"), (4, 0.6, "trying"), (5, 0.75, "trying"), (6, 1.0, "looking")]
    assert _said(io.StringIO(), *calls) == "trying: 50%, 2 s left\ntrying: 75%, 1 s left\n"


def test_without_stages_the_quarters_are_of_the_whole() -> None:
    assert _said(io.StringIO(), (1, 0.2, ""), (4, 0.5, "")) == "planning: 50%, 4 s left\n"


def test_on_a_terminal_each_stage_is_drawn_once_it_takes_long_and_removed() -> None:
    text = _said(_Terminal(), (1, 0.5, "trying"), (2.5, 0.9, "trying"), (3, 0.5, "looking at the best at length"))
    assert "trying [" in text and "50%" in text and text.endswith("\r\x1b[K")
    assert text.count("\r\x1b[K") == 3
    assert max(map(len, text.split("\r\x1b[K"))) < 80
