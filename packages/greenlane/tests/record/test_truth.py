"""CPU, I/O, wait and blame of programs that know their own: threads, gevent, asyncio, uvloop."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.truths.compare import PARTS, RUNTIMES, play

pytestmark = pytest.mark.slow

JOBS = 20


#: The machine may take the core away between the program's clock and ours, for a whole run: then again.
TRIES = 3


@pytest.mark.parametrize(("runtime", "what"), [(name, what) for name, row in RUNTIMES.items() for what in row[2]])
def test_cpu_io_and_wait_are_what_happened(runtime: str, what: str, tmp_path: Path) -> None:
    disturbed = []
    for attempt in range(TRIES):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        outcome = play(runtime, what, JOBS, folder)
        assert outcome.lost == 0
        assert len(outcome.compared) == JOBS
        assert all(one.exact for one in outcome.compared)
        right = {part: sum(one.right(part) for one in outcome.compared) for part in PARTS}
        explained = all(abs(one.job.residual_ns) <= 0.01 * one.job.latency_ns for one in outcome.compared)
        # Where in a stretch the machine took the core is known to nobody; the bench asks for 0.95 on a quiet one.
        if explained and min(right.values()) >= JOBS / 2 and outcome.blame_frac >= 0.6:
            return
        disturbed.append((right, outcome.blame_frac, outcome.true_blame_ns, outcome.blame_ns))
    pytest.fail(f"{TRIES} runs, none true: {disturbed}")
