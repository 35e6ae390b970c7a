"""One run of a contender, in a process of its own that does not outlive us, and what it has counted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from greenlane_tools.lab.experiment.program import ended
from greenlane_tools.lab.placement.contenders import Contender
from greenlane_tools.lab.placement.programs.job import Job, Result

__all__ = ["Run", "run"]

#: Start of an interpreter, of pools, of Ray.
_START_S: Final = 60.0
#: A run that takes this many times what it should, and a minute, hangs or has no CPU.
_PATIENCE: Final = 20


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

    def command(folder: Path, result: Path) -> tuple[Sequence[str], Mapping[str, str]]:
        text = json.dumps(asdict(job) | {"result": str(result)})
        return contender.command(text, job.loop, folder), {"TMPDIR": str(folder), "PLACEMENT_JOB": text}

    found = ended(command, _START_S + _PATIENCE * expected_s, lasting=True)
    return Run(Result(**found.result) if found.result else Result(), found.failed, found.others_cores)
