"""How near each contender of scenario `one-queue` came to one queue before all workers: the same requests, simulated.

    greenlane lab run one-queue --seconds 60
    python -m bench.one_queue [FOLDER] [--json]

Question: with the very arrivals and amounts of work that a run had, what would be p50 and p99 if the first free worker
took the next request, and if each request went to a worker at random? Expected: greenlane's p99 is within a quarter of
the first, and the second is more than twice it.

Samples of a run (`out/lab/one-queue/samples`) tell when each request was due and what it asked for. The simulation has
no front, no parsing and no machine: what it leaves out is what a contender's figure contains besides the queue.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.environment import about
from greenlane_tools.lab.samples import Samples, read

WORKERS: Final = 4
OURS: Final = "greenlane"
#: p99 of greenlane over that of one queue; that of random assignment over greenlane's.
MOST: Final = 1.25
LEAST: Final = 2.0
# Random assignments that are averaged: one alone is off by a tenth.
_DRAWS: Final = 20

Times = NDArray[np.float64]


def central(due_ms: Times, work_ms: Times) -> Times:
    """Latency of each request when the first free worker takes the one that is due first."""
    free = [0.0] * WORKERS
    found = np.empty(len(due_ms))
    for number, (at_ms, work) in enumerate(zip(due_ms, work_ms, strict=True)):
        end_ms = max(at_ms, free[0]) + work
        heapq.heapreplace(free, end_ms)
        found[number] = end_ms - at_ms
    return found


def at_random(due_ms: Times, work_ms: Times, seed: int) -> Times:
    """The same when each goes to a worker that is drawn, and waits for that one."""
    free = [0.0] * WORKERS
    found = np.empty(len(due_ms))
    worker = np.random.default_rng(seed).integers(0, WORKERS, len(due_ms))
    for number, (at_ms, work, who) in enumerate(zip(due_ms, work_ms, worker, strict=True)):
        free[who] = max(at_ms, free[who]) + work
        found[number] = free[who] - at_ms
    return found


def rows(folder: Path) -> list[dict[str, object]]:
    """One of each contender, and of the two simulations; runs of a contender are taken together.

    Raises:
        SystemExit: no run is there.
    """
    runs: dict[str, dict[int, Samples]] = {}
    for path in sorted((folder / "samples").glob("*.parquet")):
        key, samples = read(path)
        runs.setdefault(str(key["contender"]), {})[int(key["repetition"])] = samples
    if not runs:
        raise SystemExit(f"no runs in {folder}: make them with `greenlane lab run one-queue --out {folder}`")
    asked = [(run.scheduled_ns / 1e6, run.work_ms) for run in next(iter(runs.values())).values()]
    simulated = {
        "(one queue)": np.concatenate([central(*one) for one in asked]),
        "(at random)": np.concatenate([at_random(*one, seed) for seed in range(_DRAWS) for one in asked]),
    }
    measured = {
        name: np.concatenate([run.answered() for run in of.values()]) for name, of in runs.items()
    }  # fmt: skip
    return [_row(name, times) for name, times in {**measured, **simulated}.items()]


def _row(contender: str, times_ms: Times) -> dict[str, object]:
    p50_ms, p99_ms = (float(np.quantile(times_ms, share)) for share in (0.5, 0.99))
    return {"contender": contender, "endpoint": "job", "p50_ms": p50_ms, "p99_ms": p99_ms, "samples": len(times_ms)}


def ratios(found: Sequence[dict[str, object]]) -> tuple[float, float] | None:
    """Our p99 over one queue's, and random assignment's over ours; None = ours did not take part."""
    p99_ms = {str(row["contender"]): float(str(row["p99_ms"])) for row in found}
    if OURS not in p99_ms:
        return None
    return p99_ms[OURS] / p99_ms["(one queue)"], p99_ms["(at random)"] / p99_ms[OURS]


def main(argv: Sequence[str]) -> int:
    """Print, and judge: 1 when greenlane misses one of the two."""
    parser = argparse.ArgumentParser(prog="python -m bench.one_queue", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/lab/one-queue"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    found = rows(given.folder)
    if given.json:
        print(json.dumps({"schema": "greenlane.bench-one-queue/1", "environment": about(["greenlane"]), "rows": found}))
    for row in () if given.json else found:
        print(f"{row['contender']!s:<24} p50 {row['p50_ms']:8.1f} p99 {row['p99_ms']:8.1f} ms of {row['samples']}")
    judged = ratios(found)
    if judged is None:
        return 0
    over, better = judged
    print(f"p99 {over:.2f} x that of one queue (target <= {MOST}); random assignment's is {better:.2f} x ours "
          f"(target >= {LEAST:g})", file=sys.stderr)  # fmt: skip
    return int(over > MOST or better < LEAST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
