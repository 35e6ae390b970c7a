"""The machine and the versions that a result belongs to: `environment` of every `--json`."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Final

from greenlane_tools._native import core_loop_ns

# --- How fast the cores of this machine are while a run goes on.


#: Between two looks, s: each takes 0.06 ms of a core that the contender may want.
_PAUSE_S: Final = 0.5


class CoreSpeed:
    """The mean of the looks that were taken."""

    def __init__(self) -> None:
        self._sum_ns, self._looks, self._looked_s = 0, 0, 0.0

    def look(self) -> None:
        """Times the loop, unless it was timed a moment ago."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _PAUSE_S:
            return
        self._looked_s = now_s
        self._sum_ns += core_loop_ns()
        self._looks += 1

    @property
    def loop_ns(self) -> float:
        """What the loop took; 0 = it was never timed."""
        return self._sum_ns / self._looks if self._looks else 0.0


def about(packages: Iterable[str]) -> dict[str, object]:
    """Kernel, processor, cores, interpreter, versions of `packages`, the load average, and GREENLANE_* variables."""
    return {
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": usable_cores(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "switch_interval_ms": sys.getswitchinterval() * 1000,
        "versions": {name: _version(name) for name in packages},
        "load_average_1min": os.getloadavg()[0],
        "greenlane_env": {name: value for name, value in os.environ.items() if name.startswith("GREENLANE_")},
    }


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def front() -> None:
    """This machine has a HAProxy that `greenlane serve` can stand behind: asked before minutes of measuring.

    Raises:
        FrontError: it has none, or too old a one; the hint says how to install it.
    """
    from greenlane_serve.haproxy.found import found

    found()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
