"""Processes that the system consists of: each has a log file, and none outlives the process that started it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane_tools.lab.logged import Logged, StartFailed, found_by
from greenlane_tools.lab.processes import core_wait_ns, cpu_ns, descendants, free_port, machine_busy_ns, pss_mb

__all__ = [
    "ROOT", "Process", "StartFailed", "core_wait_ns", "cpu_ns", "descendants", "found_by", "free_port",
    "machine_busy_ns", "pss_mb",
]  # fmt: skip

#: The folder that has the package `offers`.
ROOT: Final = Path(__file__).resolve().parents[1]
#: A process is one core's worth for everybody: libraries that would start threads of their own start none.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Process(Logged):
    """A child with offers on its import path. Start it from a thread that lives as long as it shall.

    Args:
        command: argument vector.
        log: file that its stdout and stderr are added to.
        added: variables added to its environment.
        cwd: its working directory; None = ours.
    """

    def __init__(
        self, command: Sequence[str], log: Path, added: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        super().__init__(command, log, {**found_by(ROOT), **_ONE_THREAD, **(added or {})}, cwd)
