"""The time from a release of the GIL until the thread that waited for it runs, as the recording has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.record.command import greenlane, record, recorded

pytestmark = pytest.mark.slow

_COMPUTES = """
import threading

def computes():
    with greenlane.record.job("computes"):
        end = time.thread_time() + 0.5
        while time.thread_time() < end:
            pass
"""


def _totals(source: str, folder: Path) -> tuple[int, int]:
    assert record(_COMPUTES + source, cwd=folder).code == 0
    last = recorded(folder).samples[-1]
    return last.waking_ns, last.hand_overs


def test_two_threads_that_compute_hand_the_gil_over_and_each_time_one_wakes(tmp_path: Path) -> None:
    two = """
threads = [threading.Thread(target=computes) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    waking_ns, hand_overs = _totals(two, tmp_path)
    # Each gives it up at least once in 5 ms while the other one waits, which is most of the time.
    assert hand_overs >= 20
    (process,) = recorded(tmp_path).processes
    assert 0 < waking_ns < process.to_ns - process.from_ns
    rows = json.loads(greenlane("report", "r.glr", "--json", cwd=tmp_path).out)["rows"]
    (row,) = [row for row in rows if row["view"] == "worker"]
    assert row["hand_overs"] <= hand_overs
    assert row["waking_frac"] is None or 0 <= row["waking_frac"] < 1
    assert "GIL waking" in greenlane("report", "r.glr", "-o", "-", cwd=tmp_path).out


def test_one_thread_hands_it_to_nobody(tmp_path: Path) -> None:
    assert _totals("computes()", tmp_path) == (0, 0)
