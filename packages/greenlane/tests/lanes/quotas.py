"""A control group with a CPU quota, where this machine lets one be made."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_CGROUPS = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@contextlib.contextmanager
def quota(cores: float) -> Iterator[None]:
    """Let this process and what it starts use this many cores. Skips the test where that cannot be had."""
    with group(cores) as own:
        try:
            try:
                (own / "cgroup.procs").write_text(str(os.getpid()))
            except OSError as error:
                pytest.skip(f"no control group can be entered here: {error}")
            yield
        finally:
            with contextlib.suppress(OSError):
                (own.parent / "cgroup.procs").write_text(str(os.getpid()))


@contextlib.contextmanager
def group(cores: float) -> Iterator[Path]:
    """The folder of an empty control group of this many cores; what has entered has to end within the block."""
    most_us = round(cores * _PERIOD_US)
    second = (_CGROUPS / "cgroup.controllers").exists()
    above = _CGROUPS / ("" if second else "cpu") / _membership(second).lstrip("/")
    own = above / f"greenlane-{os.getpid()}"
    try:
        own.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            if second:
                (own / "cpu.max").write_text(f"{most_us} {_PERIOD_US}")
            else:
                (own / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (own / "cpu.cfs_quota_us").write_text(str(most_us))
        except OSError as error:
            pytest.skip(f"no CPU quota can be set here: {error}")
        yield own
    finally:
        own.rmdir()


def _membership(second: bool) -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" if second else "cpu" in controllers.split(","):
            return path
    return "/"
