"""A large recording is laid out a part at a time, and only its end is read: that says the same as all of it at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.record.command import record

from greenlane_tools import _native
from greenlane_tools.reader import open_recording, recording

pytestmark = pytest.mark.slow

#: Jobs on threads that want the GIL, some longer than a part; and greenlets' like, threads that end.
BUSY = """
import threading
def burn(ms):
    until = time.thread_time() + ms / 1000
    while time.thread_time() < until: pass
def many(number):
    for times in range(250):
        with greenlane.record.job(f"job {number}"):
            burn(1)
            time.sleep(0.001)
def long():
    for _ in range(3):
        with greenlane.record.job("long"):
            for _ in range(3):
                burn(10)
                time.sleep(0.1)
def longer():
    with greenlane.record.job("longer"):
        burn(2)
        time.sleep(0.8)
        burn(2)
threads = [threading.Thread(target=many, args=(number,)) for number in range(3)]
threads += [threading.Thread(target=long), threading.Thread(target=longer)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("busy")
    ended = record(BUSY, cwd=folder)
    assert ended.code == 0, ended.err
    return folder / "r.glr"


@pytest.mark.parametrize("part_bytes", [15_000, 40_000])
def test_in_parts_it_says_the_same(busy: Path, part_bytes: int) -> None:
    bytes_of = busy.read_bytes()
    whole, parts = _native.Recording(bytes_of), _native.Recording(bytes_of, part_bytes=part_bytes)
    jobs, found = ({(row[0], row[1]): row for row in one.jobs()} for one in (whole, parts))
    assert len(jobs) == 754 and jobs.keys() == found.keys()
    # What a job did more than four parts ago is not read again, or not all that was beside it.
    short = {job: row for job, row in jobs.items() if not row[2].startswith("long")}
    assert [_said(found[job]) for job in short] == [_said(row) for row in short.values()]
    for job in jobs.keys() - short.keys():
        row = found[job]
        assert row[:11] == jobs[job][:11]
        assert row[11] + sum(row[12].values()) + sum(row[13].values()) + row[14] == row[9] - row[8]
    # Culprits are compared by their sums: who began long before a part may have lost its name.
    blamed, again = (_blame(one) for one in (whole, parts))
    assert sum(blamed.values()) == sum(again.values())
    assert sum((blamed - again).values()) <= 0.02 * sum(blamed.values())
    for name in ("stacks", "looks", "samples", "held", "processes", "skipped", "unfinished", "costs"):
        assert getattr(whole, name)() == getattr(parts, name)(), name
    for process, job in list(short)[::50]:
        assert whole.segments(process, job) == parts.segments(process, job)
        row = jobs[process, job]
        assert sum(ns for _, ns in parts.culprits(process, job, row[6], row[9])) == sum(row[13].values())


def _said(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without its culprits. What is unseen is told from `os` by a bound that counts from the start of a part."""
    waits: Counter[str] = Counter()
    for kind, ns in row[13].items():
        waits["os" if kind == "blocked" else kind] += ns
    return (*row[:13], dict(waits), *row[14:16])


def test_of_a_recording_that_is_too_large_the_end_is_read_and_it_is_said(
    busy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = open_recording(busy)
    assert not any("of its last" in note for note in whole.notes)
    monkeypatch.setattr(recording, "LARGE_BYTES", busy.stat().st_size // 3)
    monkeypatch.setattr(recording, "_MOST_ROWS", 100)
    part = open_recording(busy)
    assert "of its last" in part.notes[0] and "(UTC) on: --from and --to" in part.notes[0]
    assert 50 < len(part.jobs) < len(whole.jobs) / 2
    assert part.jobs[-1] == whole.jobs[-1]
    monkeypatch.setattr(recording, "_MOST_ROWS", 100_000)
    assert len(open_recording(busy).jobs) == len(whole.jobs)


def test_a_file_that_is_mapped_says_the_same(busy: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.glr"
    # What is no recording is skipped, 50 MB of it.
    with large.open("wb") as file:
        file.write(busy.read_bytes())
        file.truncate(60_000_000)
    assert [job[:16] for job in open_recording(large).jobs] == [job[:16] for job in open_recording(busy).jobs]


def _blame(native: _native.Recording) -> Counter[tuple[str, str, str]]:
    found = Counter[tuple[str, str, str]]()
    for victim, kind, culprit, _phase, ns, *_ in native.blame():
        found[victim, kind, culprit] += ns
    return found
