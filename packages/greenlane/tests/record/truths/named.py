"""A trouble's recording beside what is true of it: does every wait have its right name, and the right length?

A name is right within 5 % of the victims' latency, all of them together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.record.truths.compare import MS, run
from tests.record.truths.troubles import TROUBLES

from greenlane_tools.reader import Recording, open_recording
from greenlane_tools.report.culprits import places
from greenlane_tools.report.study import study_of

NAMED_FRAC = 0.05
_COUNTED = ("unknown units", "own frames")
#: Greenlane is nobody's culprit.
_OURS = re.compile(r"^greenlane(_\w+)?/")


@dataclass(frozen=True)
class Told:
    """One figure of a trouble: what it is, true, and recorded; ns, except what is counted."""

    trouble: str
    what: str
    #: Between these two: what lies between them may be either.
    true: tuple[float, float]
    recorded: float
    #: Of its victims.
    latency_ns: int

    @property
    def off_frac(self) -> float:
        """So much of the victims' latency is off; of what is counted, of one."""
        low, high = self.true
        off = min(0.0, self.recorded - low) or max(0.0, self.recorded - high)
        return off / (1 if self.counted else max(1, self.latency_ns))

    @property
    def counted(self) -> bool:
        """It is a number, and no time."""
        return self.what in _COUNTED or self.what.startswith("verdict ")

    @property
    def right(self) -> bool:
        """See the module."""
        return abs(self.off_frac) <= NAMED_FRAC

    def line(self) -> str:
        """For people."""
        unit = "" if self.counted else " ms"
        scale = MS if unit else 1
        return (
            f"{self.trouble:<14}{self.what:<16}true {self.true[0] / scale:>9.1f}{unit}  recorded "
            f"{self.recorded / scale:>9.1f}{unit}  off {self.off_frac:>7.2%} of the latency"
        )


def play_trouble(what: str, count: int, folder: Path) -> list[Told]:
    """Run a service with a trouble, recorded into `folder`, which is new or empty."""
    told = run(folder, "troubles", what, str(count), more=TROUBLES[what])
    recording = open_recording(folder)
    latency_ns = sum(job.latency_ns for job in recording.jobs if job.route in ("victim", "GET /victim"))
    rows = {name: true if isinstance(true, list) else [true, true] for name, true in told["true_ns"].items()}
    rows["own frames"] = [0, 0]
    return [
        # A route's own latency is what its latency is measured against.
        Told(what, name, (low, high), _recorded(recording, name), int(high) if "latency" in name else latency_ns)
        for name, (low, high) in rows.items()
    ]


def _recorded(recording: Recording, name: str) -> float:
    group, _, kind = name.partition(" ")
    victims = [job for job in recording.jobs if job.route == "victim"]
    if group == "held":
        return sum(row.ns for row in recording.held if f"{kind} (" in row.stack)
    if name == "unknown units":
        return sum("started before" in note for note in recording.notes)
    if name == "own frames":
        return sum(bool(_OURS.match(frame.file)) for frame in places(recording.stacks).values())
    if group == "verdict":
        return float(study_of(recording).verdict.kind == kind)
    if group == "latency":
        return sum(job.latency_ns for job in recording.jobs if job.route == kind)
    if group == "gil":
        rows = [row for row in recording.blame if (row.victim, row.kind, row.culprit) == ("victim", "gil", kind)]
        return sum(row.ns for row in rows)
    if name == "io all":
        return sum(sum(job.io_ns.values()) for job in victims)
    by_kind = [job.wait_ns if group == "wait" else job.io_ns for job in victims]
    return sum(each.get(kind, 0) for each in by_kind)
