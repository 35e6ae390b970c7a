"""How many cores a process may use."""

import os
from pathlib import Path

import pytest

from greenlane.policy.permits import usable_cores

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
