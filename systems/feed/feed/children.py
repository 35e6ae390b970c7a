"""Processes that the feed's site consists of: started on loopback, and gone when their parent is, however it ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from greenlane_tools.lab.processes import Logged

#: The folder that has the package `feed`.
ROOT: Final = Path(__file__).resolve().parents[1]


class Process(Logged):
    """A child with the feed on its import path. Start it from a thread that lives as long as it shall."""

    folder = ROOT


def command(module: str) -> list[str]:
    """Argument vector that runs one of our modules."""
    return [sys.executable, "-m", module]
