"""Processes that the system consists of: each has a log file, and none outlives the process that started it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from greenlane_tools.lab.processes import Logged

__all__ = ["ROOT", "Process"]

#: The folder that has the package `offers`.
ROOT: Final = Path(__file__).resolve().parents[1]


class Process(Logged):
    """A child with offers on its import path."""

    folder = ROOT
    # A process is one core's worth for everybody: libraries that would start threads of their own start none.
    around = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # noqa: RUF012
