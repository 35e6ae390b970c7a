"""The cores that workers and permits are counted by: what the container may use, not what its machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lanes.quotas import quota

from greenlane.policy.cores import usable_cores

HAS = len(os.sched_getaffinity(0))


def put(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_max", ".max").replace("cpu_cfs", "cpu.cfs")).write_text(text)


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", HAS), ("50000 100000", 1), ("100000 100000", 1)])
def test_a_quota_of_the_second_version_counts(tmp_path: Path, quota: str, cores: int) -> None:
    member = tmp_path / "member"
    member.write_text("0::/pods/shop\n")
    put(tmp_path / "pods" / "shop", cpu_max=quota)
    assert usable_cores(tmp_path, member) == cores


def test_a_quota_above_counts_too_and_part_of_a_core_is_one(tmp_path: Path) -> None:
    member = tmp_path / "member"
    member.write_text("0::/pods/shop\n")
    put(tmp_path / "pods" / "shop", cpu_max="max 100000")
    put(tmp_path / "pods", cpu_max="10000 100000")
    assert usable_cores(tmp_path, member) == 1


def test_a_container_that_sees_its_own_cgroup_as_the_root_counts_by_it(tmp_path: Path) -> None:
    member = tmp_path / "member"
    member.write_text("3:cpu,cpuacct:/docker/4778\n0::/\n")
    put(tmp_path / "cpu", cpu_cfs_quota_us="70000", cpu_cfs_period_us="100000")
    assert usable_cores(tmp_path, member) == 1


def test_without_a_quota_or_cgroups_it_is_the_affinity(tmp_path: Path) -> None:
    member = tmp_path / "member"
    member.write_text("3:cpu,cpuacct:/\n2:memory:/x\n")
    put(tmp_path / "cpu", cpu_cfs_quota_us="-1", cpu_cfs_period_us="100000")
    assert usable_cores(tmp_path, member) == usable_cores(tmp_path, tmp_path / "none") == HAS


def test_they_follow_the_quota_of_a_real_control_group() -> None:
    program = "from greenlane.policy.cores import usable_cores; print(usable_cores())"
    with quota(0.5):
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert int(said) == 1 <= HAS
