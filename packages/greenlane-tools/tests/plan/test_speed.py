"""Speeds of a core: what a metered service has noted, and a recording told in CPU of a core at one speed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bench.predicted.speed import AtOneSpeed, Speed, metered
from greenlane_tools.plan.recorded import profile_of_recording
from greenlane_tools.reader.recording import open_recording
from tests.recordings import write_pricing

_MS = 1_000_000
#: Iterations in a calibrated millisecond.
_PER_MS = 100.0


def _noted(path: Path, rows: list[tuple[int, int, int]]) -> None:
    table = np.zeros((len(rows) + 3, 3), np.int64)
    table[: len(rows)] = rows
    table.tofile(path)


def test_speed_is_of_the_work_around_a_moment(tmp_path: Path) -> None:
    # Two processes: one at the calibrated speed for 10 s, then one at half of it.
    fast = [(second * 1000 * _MS, 1 * _MS, 100) for second in range(10)]
    slow = [(second * 1000 * _MS, 4 * _MS, 200) for second in range(10, 20)]
    _noted(tmp_path / "gevent.11", slow)
    _noted(tmp_path / "gevent.7", fast)
    _noted(tmp_path / "greenlane.8", slow)
    speed = metered(tmp_path / "gevent", _PER_MS)
    assert speed.times(3e9, 5e9) == pytest.approx(1.0)
    assert speed.times(13e9, 15e9) == pytest.approx(2.0)
    assert 1.0 < speed.times(7e9, 13e9) < 2.0
    # Beyond its work, and between two pieces of it: the nearest.
    assert (speed.times(-9e9, -8e9), speed.times(90e9, 91e9)) == (pytest.approx(1.0), pytest.approx(2.0))
    assert speed.times(15.4e9, 15.6e9) == pytest.approx(2.0)
    assert speed.mean == pytest.approx(50 / 30)


def test_without_work_the_speed_is_the_calibrated_one(tmp_path: Path) -> None:
    assert metered(tmp_path / "gevent", _PER_MS).times(0, 1) == 1.0


def test_a_recording_on_a_slow_core_is_told_in_less_cpu_and_the_same_waits(tmp_path: Path) -> None:
    file = write_pricing(tmp_path / "pricing.glr", processes=1, seconds=4)
    at_ns = np.array([0, 1 << 62])
    half = AtOneSpeed(file, Speed(at_ns, np.array([0.0, 2e9]), np.array([0.0, 1e9])))
    plain = profile_of_recording(open_recording(file))
    told = profile_of_recording(half)
    for route in plain.routes:
        before, after = route.demand, told.route(route.route).demand
        assert after.cpu_ms == pytest.approx(before.cpu_ms / 2, rel=0.01)
        assert after.io_ms == pytest.approx(before.io_ms, rel=0.01)
    assert math.isclose(told.overhead_ms, plain.overhead_ms / 2, abs_tol=0.05)
