"""A program's recording beside what its jobs know of themselves: how far each part is off, and whose blame is right.

A part is right within 3 % of itself or 0.5 ms. Blame is compared over all victims of a program: of the wait that is
somebody's (not a lock's), so much is right as the recording and the program give to the same route; what the program
saw nobody for is `others`, and so is what the recording gives to no route of the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greenlane_tools.reader import Job, Recording, open_recording
from tests.where import IMPORT_PATH

MS = 1_000_000
PARTS = ("cpu", "io", "wait")
#: By runtime: its module and last argument, and what its victims wait for.
RUNTIMES = {
    "threads": ("on_threads", (), ("reply", "timer", "lock")),
    "gevent": ("on_gevent", (), ("reply", "timer", "event", "child")),
    "asyncio": ("on_loop", ("asyncio",), ("reply", "timer", "event", "child")),
    "uvloop": ("on_loop", ("uvloop",), ("reply", "timer", "event", "child")),
}
#: libuv's timers count whole ms: the moment of a timer is known no better.
TICK_NS = {("uvloop", "timer"): MS}
_BEYOND_NS = 100 * MS


@dataclass(frozen=True)
class Compared:
    """One victim: what was recorded, and how far each part lies outside of what is true, ns."""

    job: Job
    true_ns: dict[str, tuple[int, int]]
    off_ns: dict[str, int]

    def right(self, part: str) -> bool:
        """Within 3 % or 0.5 ms."""
        return abs(self.off_ns[part]) <= max(0.03 * self.true_ns[part][0], MS / 2)

    @property
    def exact(self) -> bool:
        """The parts are the latency."""
        return sum(parts(self.job).values()) + self.job.residual_ns == self.job.latency_ns


@dataclass(frozen=True)
class Outcome:
    """One program's run."""

    runtime: str
    what: str
    compared: list[Compared]
    recording: Recording
    #: Of the victims' wait, ns, by culprit: true, and recorded.
    true_blame_ns: dict[str, int]
    blame_ns: dict[str, int]
    lost: int

    @property
    def blame_frac(self) -> float:
        """So much of the wait is blamed on who it was."""
        right_ns = sum(min(ns, self.blame_ns.get(culprit, 0)) for culprit, ns in self.true_blame_ns.items())
        return right_ns / max(1, sum(self.true_blame_ns.values()), sum(self.blame_ns.values()))


def parts(job: Job) -> dict[str, int]:
    """CPU, I/O and wait of a job, ns."""
    return {"cpu": job.cpu_ns, "io": sum(job.io_ns.values()), "wait": sum(job.wait_ns.values())}


def play(runtime: str, what: str, count: int, folder: Path) -> Outcome:
    """Run a program of `RUNTIMES`, recorded into `folder`, which is new or empty."""
    module, more, _ = RUNTIMES[runtime]
    told = run(folder, module, what, str(count), *more)
    recording = open_recording(folder)
    jobs = {job.job: job for job in recording.jobs}
    tick_ns = TICK_NS.get((runtime, what), 0)
    compared = [_compared(jobs[int(number)], row, tick_ns) for number, row in told["jobs"].items()]
    true_ns = _blame(told)
    return Outcome(runtime, what, compared, recording, true_ns, _recorded(recording, true_ns), told["lost"])


def run(folder: Path, module: str, *argv: str, more: Mapping[str, str] = {}, timeout_s: float = 300) -> Any:
    """What a program of this folder prints, as JSON; it records itself into `folder`.

    Raises: RuntimeError with its last words if it fails.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GREENLANE_")}
    environment |= {"PYTHONPATH": IMPORT_PATH, "GREENLANE_RECORD_FOLDER": str(folder), **more}
    # Not a pipe: after uvloop has run, CPython loses what does not fit into one.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        done = subprocess.run(
            [sys.executable, "-m", f"tests.record.truths.{module}", *argv],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{module} {' '.join(argv)}: exit code {done.returncode}\n{done.stderr}")
        printed.seek(0)
        return json.load(printed)


def _compared(job: Job, row: dict[str, Any], tick_ns: int) -> Compared:
    seen = parts(job) | {"latency": job.latency_ns}
    true_ns = {part: (row[f"{part}_ns"][0], row[f"{part}_ns"][1]) for part in PARTS}
    for part in ("io", "wait"):
        true_ns[part] = (true_ns[part][0] - tick_ns, true_ns[part][1] + tick_ns)
    true_ns["latency"] = (row["latency_ns"], row["latency_ns"])
    off_ns = {part: _outside(seen[part], *true_ns[part]) for part in true_ns}
    return Compared(job, true_ns, off_ns)


def _outside(ns: int, low_ns: int, high_ns: int) -> int:
    return ns - low_ns if ns < low_ns else max(0, ns - high_ns)


def _blame(told: dict[str, Any]) -> dict[str, int]:
    """Who ran while the victims waited."""
    ran = sorted(map(tuple, told["ran"]))
    begins = [from_ns for from_ns, *_ in ran]
    blame: dict[str, int] = {"others": 0}
    for row in told["jobs"].values():
        for from_ns, to_ns, wait_ns, running in row["waits"]:
            if not running:
                continue
            left_ns = wait_ns
            for its_from_ns, its_to_ns, route, frac in ran[max(0, bisect_left(begins, from_ns - _BEYOND_NS)) :]:
                if its_from_ns >= to_ns:
                    break
                both_ns = min(its_to_ns, to_ns) - max(its_from_ns, from_ns)
                # Not itself; and of a stretch that was wait in part, no more than that.
                if both_ns > 0 and route != "victim":
                    both_ns = min(round(both_ns * min(frac, 1)), left_ns)
                    blame[route] = blame.get(route, 0) + both_ns
                    left_ns -= both_ns
            blame["others"] += left_ns
    return blame


def _recorded(recording: Recording, true_ns: dict[str, int]) -> dict[str, int]:
    blame: dict[str, int] = {}
    for one in recording.blame:
        if one.victim == "victim" and one.kind not in ("lock", "pool"):
            culprit = one.culprit if one.culprit in true_ns else "others"
            blame[culprit] = blame.get(culprit, 0) + one.ns
    return blame
