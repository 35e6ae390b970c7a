"""How programs of pos are started: by the interpreter that runs now, which finds pos and greenlane where we do."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import greenlane

#: The folder that has the package `pos`.
ROOT: Final = Path(__file__).resolve().parents[1]
_GREENLANE: Final = Path(greenlane.__file__).resolve().parents[1]


def command(module: str) -> list[str]:
    """Argument vector that runs a module."""
    return [sys.executable, "-m", module]


def environment() -> dict[str, str]:
    """Our own environment, with import paths that lead to the same pos and the same greenlane."""
    paths = [str(ROOT), str(_GREENLANE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path for path in paths if path))}
