"""Results as `greenlane lab run` leaves them, made of known distributions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from greenlane_tools.lab.samples import Samples, keep

ENVIRONMENT = {"kernel": "6.1", "cores": 2, "load_average_1min": 0.1, "versions": {"flask": "3.1"}}
_SCENARIO = '[[class]]\nname = "light"\ndeadline_ms = 200\n[[class]]\nname = "heavy"\n'


@dataclass(frozen=True)
class Made:
    """How a contender behaves."""

    # Of `light`; `heavy` takes three times that.
    median_ms: float = 50.0
    failed_frac: float = 0.0
    # By which requests leave after they were due.
    late_ms: float = 0.0
    cpu_ms: float = 3_000.0


def requests(source: np.random.Generator, made: Made, size: int = 600, seconds: float = 30.0) -> Samples:
    due = np.sort(source.integers(0, int(seconds * 1e9), size))
    stream = (np.arange(size) % 3 == 0).astype(np.uint16)
    latency_ms = made.median_ms * np.exp(source.normal(0, 0.4, size)) * np.where(stream == 1, 3, 1)
    done = due + (latency_ms * 1e6).astype(np.int64)
    status = np.where(source.random(size) < made.failed_frac, 500, 200).astype(np.int16)
    sent = due + int(made.late_ms * 1e6) + 1
    zero = np.zeros(size)
    return Samples(("light", "heavy"), stream, due, sent, done, done, status, zero.astype(np.int32), zero)


def write(
    folder: Path, contenders: Mapping[str, Made], *, repetitions: int = 5, levels: tuple[float, ...] = (0.7,),
    environment: Mapping[str, object] = ENVIRONMENT, seed: int = 1, measured: bool = True,
) -> Path:  # fmt: skip
    """A result folder; what varies from repetition to repetition is the same for all contenders.

    Args:
        measured: run.json says what was measured around each run.
    """
    (folder / "samples").mkdir(parents=True)
    source, done = np.random.default_rng(seed), {}
    for level in levels:
        for repetition in range(repetitions):
            drift = float(np.exp(source.normal(0, 0.05)))
            for name, made in contenders.items():
                key = {
                    "contender": name, "cell": f"{name}-{level}", "utilisation_frac": level, "rate_factor": 1.0,
                    "repetition": repetition,
                }  # fmt: skip
                label = f"{name}-{level}-{repetition}"
                own = Made(made.median_ms * drift, made.failed_frac, made.late_ms)
                keep(folder / "samples" / f"{label}.parquet", key, requests(source, own))
                cpu_ms = made.cpu_ms * float(np.exp(source.normal(0, 0.01)))
                done[label] = {"seconds": 30.0, "cpu_ms": cpu_ms, "late": "", "others_cores": 0.0}
    about = {"scenario": _SCENARIO, "environment": environment, "done": done if measured else {}}
    (folder / "run.json").write_text(json.dumps(about))
    return folder
