"""How the feed's own programs are started: by this interpreter, with the feed on their import path."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def command(module: str) -> list[str]:
    """Argument vector that runs a module of ours."""
    return [sys.executable, "-m", module]


def environment() -> dict[str, str]:
    """What the program's environment needs beyond ours."""
    there = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return {"PYTHONPATH": os.pathsep.join([str(ROOT), *[path for path in there if path and path != str(ROOT)]])}
