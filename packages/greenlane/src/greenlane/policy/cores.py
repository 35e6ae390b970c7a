"""The cores that this process may use: by its affinity, and by the CPU quota of its cgroup (v1 and v2)."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["CGROUPS", "MEMBERSHIP", "cgroup_folders", "cpu_quota", "usable_cores"]

#: Where the hierarchies are mounted.
CGROUPS: Final = Path("/sys/fs/cgroup")
#: The cgroups of this process.
MEMBERSHIP: Final = Path("/proc/self/cgroup")


def usable_cores(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """At least 1. A quota of 1.5 cores is 2: a worker more uses what is left of it.

    Args:
        cgroups: where the hierarchies are mounted.
        membership: the cgroups of this process.
    """
    return min([len(os.sched_getaffinity(0)), *map(math.ceil, _quotas(cgroups, membership))])


def cpu_quota(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> float:
    """How many cores' time this process may use; infinity = that of all."""
    return min(_quotas(cgroups, membership), default=math.inf)


def _quotas(cgroups: Path, membership: Path) -> Iterator[float]:
    for folder in cgroup_folders(cgroups, membership):
        yield from _quota(folder)


def cgroup_folders(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> Iterator[Path]:
    """Those of the process's cgroup for CPU time and of those above it, which need not be there.

    In a container only some of them can be seen, or only the root.
    """
    with contextlib.suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            for mounted in (cgroups / controllers, cgroups / "cpu") if controllers else (cgroups,):
                here = mounted / path.lstrip("/")
                for folder in (here, *here.parents):
                    yield folder
                    if folder == mounted:
                        break


def _quota(folder: Path) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        if (found := folder / "cpu.max").exists():
            quota, period = found.read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        if quota != "max" and float(quota) > 0:
            yield float(quota) / float(period)
