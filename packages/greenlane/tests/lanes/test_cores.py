"""How many cores a process may use."""

import os
import sys
from pathlib import Path

import pytest

from greenlane.policy import permits as rule
from greenlane.policy.permits import permits_of, usable_cores
from greenlane.settings import Settings

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("50000 100000", 1), ("100000 100000", 1), ("150000 100000", min(2, CORES)), ("max 100000", CORES), ("", CORES)],
)
def test_a_quota_bounds_the_usable_cores(tmp_path: Path, quota: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    assert usable_cores(tmp_path / "cpu.max") == cores


def test_without_a_quota_they_are_those_of_the_affinity(tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "none") == CORES


@pytest.mark.parametrize(("gil", "cores", "permits"), [(True, 8, 1), (False, 8, 7), (False, 2, 1), (False, 1, 1)])
def test_without_a_gil_one_core_stays_with_the_short_phases(
    monkeypatch: pytest.MonkeyPatch, gil: bool, cores: int, permits: int
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: gil, raising=False)
    monkeypatch.setattr(rule, "usable_cores", lambda: cores)
    assert permits_of(Settings()) == permits
    assert permits_of(Settings(permits=3)) == 3
