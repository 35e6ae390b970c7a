"""Raw samples: what one request was, how they are kept.

A run's samples are lines of text (the generator's stdout); kept ones are one gzip member per run appended to one
`.csv.gz`, so that an interrupted comparison has everything up to its last whole run, and any tool can read it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

# `status` of a request that has no HTTP status.
FAILED: Final = 0  # refused, reset, or an answer that is not HTTP
UNANSWERED: Final = -1  # no complete answer within the plan's time-out, counted from the scheduled send


@dataclass(slots=True)
class Sample:
    """One request as it went. Times are nanoseconds since the run's start; `sent_ns` 0 = never sent."""

    endpoint: str
    scheduled_ns: int
    sent_ns: int
    done_ns: int
    status: int

    def latency_ms(self) -> float:
        """From the scheduled send to the end of the answer; for an unanswered request, how long was waited for it."""
        return (self.done_ns - self.scheduled_ns) / 1e6


@dataclass(frozen=True)
class RunKey:
    """Which run: the columns in front of each kept sample."""

    contender: str
    mix: str
    utilisation_frac: float
    repetition: int


def write_samples(samples: Iterable[Sample], out: TextIO) -> None:
    """One line a sample: endpoint, scheduled_ns, sent_ns, done_ns, status."""
    for sample in samples:
        out.write(f"{sample.endpoint},{sample.scheduled_ns},{sample.sent_ns},{sample.done_ns},{sample.status}\n")


def read_samples(lines: Iterable[str]) -> list[Sample]:
    """What `write_samples` wrote."""
    fields = (line.rstrip("\n").split(",") for line in lines)
    return [Sample(name, int(due), int(sent), int(done), int(status)) for name, due, sent, done, status in fields]


COLUMNS: Final = "contender,mix,utilisation_frac,repetition,endpoint,scheduled_ns,sent_ns,done_ns,status"


def keep(path: Path, key: RunKey, samples: Iterable[Sample]) -> None:
    """Appends one run's samples to `path` (csv.gz with a header line)."""
    first = not path.exists()
    before = f"{key.contender},{key.mix},{key.utilisation_frac},{key.repetition},"
    with gzip.open(path, "at", encoding="utf-8", compresslevel=5) as out:
        if first:
            out.write(COLUMNS + "\n")
        for sample in samples:
            out.write(before)
            write_samples([sample], out)
