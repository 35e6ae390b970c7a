"""Runs of the proof on disk: the lab's own folders, and the csv.gz files of proofs before it.

    python -m bench.store FILE.csv.gz [FILE …]         a table of such runs

A csv.gz file is one run: a line of JSON (what was measured around it, its key), then a line a request: endpoint,
scheduled_ns, sent_ns, done_ns, status.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run import tables
from greenlane_tools.lab.run.performed import Run, Turn
from greenlane_tools.lab.run.rows import pooled
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.scenario import Level

# Of a run, besides its key and samples.
_KEPT = ("seconds", "cpu_ms", "wall_s", "pss_mb", "others_cores")


def read_csv(path: Path) -> Run:
    """A run of a csv.gz file. Its answers' first bytes were not timed: they are 0.

    Raises:
        OSError: it cannot be read.
        ValueError, KeyError: it is no such file.
    """
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        head = json.loads(next(lines))
        fields = [line.rstrip("\n").split(",") for line in lines]
    names = tuple(dict.fromkeys(row[0] for row in fields))
    numbers = np.array([[int(value) for value in row[1:]] for row in fields], np.int64).reshape(-1, 4)
    size = len(numbers)
    stream = np.array([names.index(row[0]) for row in fields], np.uint16)
    due, sent, done, status = numbers.T
    unknown = np.zeros(size, np.int64)
    samples = Samples(
        names, stream, due, sent, unknown, done, status.astype(np.int16), unknown.astype(np.int32), np.zeros(size)
    )
    key = head["key"]
    turn = Turn(key["contender"], Level(key["utilisation_frac"]), key["repetition"])
    return Run(turn=turn, samples=samples, **{name: head[name] for name in _KEPT})


def main(argv: Sequence[str]) -> int:
    """Prints the table."""
    runs = [read_csv(Path(name)) for name in argv]
    scenario = pricing()
    print(tables.result_table(scenario, pooled(scenario, runs), tables.subjects(scenario)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
