"""One run of a contender, in a process of its own that does not outlive us, and what it has counted."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from greenlane_tools.lab import processes
from greenlane_tools.lab.environment import usable_cores
from greenlane_tools.lab.interruption import checkpoint
from greenlane_tools.lab.placement.contenders import Contender
from greenlane_tools.lab.placement.programs.job import Job, Result

__all__ = ["Run", "run"]

_POLL_S: Final = 0.01
#: Start of an interpreter, of pools, of Ray.
_START_S: Final = 60.0
#: A run that takes this many times what it should, and a minute, hangs or has no CPU.
_PATIENCE: Final = 20
_JOB_VARIABLE: Final = "PLACEMENT_JOB"


@dataclass(frozen=True)
class Run:
    """What one process did."""

    result: Result
    # Why there is no result; "" = there is one.
    failed: str
    # Cores that other processes used meanwhile, on average; grain 10 ms in all.
    others_cores: float


def run(contender: Contender, job: Job, expected_s: float) -> Run:
    """Runs the job and waits for it. Whatever happens, Ctrl-C included, all of it has ended afterwards.

    Args:
        job: its `result` is set here.
        expected_s: how long it takes on an idle machine, its start left out.
    """
    # A short name: Ray's sockets lie in this folder, and a socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="gl-p-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        result, log = folder / "result.json", folder / "log"
        text = json.dumps(asdict(job) | {"result": str(result)})
        environment = {**os.environ, "TMPDIR": name, _JOB_VARIABLE: text}
        busy_ns, began_s = processes.machine_busy_ns() - processes.family_ns(), time.monotonic()
        limit_s = began_s + _START_S + _PATIENCE * expected_s
        with log.open("wb") as written:
            child = processes.Child(contender.command(text, job.loop, folder), environment, written, folder)
            try:
                while child.running() and not result.exists() and time.monotonic() < limit_s:
                    checkpoint()
                    time.sleep(_POLL_S)
                passed_s = time.monotonic() - began_s
                others_ns = processes.machine_busy_ns() - processes.family_ns() - busy_ns
            finally:
                child.end()
        others = min(max(others_ns / 1e9 / passed_s, 0.0), usable_cores())
        if not result.exists():
            how = "it took too long" if time.monotonic() >= limit_s else "it ended without a result"
            return Run(Result(), f"{how}{_last_line(log)}", others)
        return Run(_read(result), "", others)


def _read(path: Path) -> Result:
    found: dict[str, Any] = json.loads(path.read_text())
    return Result(**found)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"; it said: {lines[-1]}" if lines else ""
