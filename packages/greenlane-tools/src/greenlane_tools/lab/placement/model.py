"""The CatBoost model of the function `catboost`: 500 trees of depth 6, trained once on seeded rows, kept in a file."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from greenlane.errors import GreenlaneError
from greenlane_tools.lab import processes
from greenlane_tools.lab.interruption import checkpoint

__all__ = ["trained"]

#: Changed with whatever changes the model.
_NAME: Final = "catboost-500x6-1.cbm"
_LIMIT_S: Final = 300.0
_POLL_S: Final = 0.02
_ATTEMPT: Final = "train the model of the function catboost"


def trained(folder: Path) -> Path:
    """Its file in that folder; trained in a process of its own when it is not there, some seconds.

    Raises:
        GreenlaneError: the training failed, or took too long.
    """
    found = folder.resolve() / _NAME
    if found.exists():
        return found
    with tempfile.TemporaryDirectory(prefix="gl-model-", dir=found.parent, ignore_cleanup_errors=True) as work:
        log, made = Path(work, "log"), Path(work, "model.cbm")
        with log.open("wb") as written:
            command = [sys.executable, "-m", "greenlane_tools.lab.placement.programs.train", str(made)]
            child = processes.Child(command, os.environ, written, Path(work))
            try:
                until = time.monotonic() + _LIMIT_S
                while child.running() and time.monotonic() < until:
                    checkpoint()
                    time.sleep(_POLL_S)
            finally:
                child.end()
        if not made.exists():
            last = (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            hint = "leave catboost out of --functions"
            raise GreenlaneError(_ATTEMPT, name="model", value=_NAME, rule=f"a trained model ({last})", hint=hint)
        made.replace(found)
    return found
