"""Processes that pos consists of: each has a log file, and none outlives the process that started it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from greenlane_tools.lab.processes import Logged

#: The folder that has the package `pos`.
ROOT: Final = Path(__file__).resolve().parents[1]


class Process(Logged):
    """A child with pos on its import path."""

    folder = ROOT


def command(module: str) -> list[str]:
    """Argument vector that runs a module."""
    return [sys.executable, "-m", module]
