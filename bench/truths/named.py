"""A trouble's recording beside what is true of it: does every wait have its right name, and the right length?

A name is right within 5 % of the victims' latency, all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.truths.compare import MS, run
from bench.truths.troubles import TROUBLES
from greenlane_tools.reader import Recording, open_recording

NAMED_FRAC = 0.05


@dataclass(frozen=True)
class Told:
    """One figure of a trouble: what it is, true, and recorded; ns, but for what is counted."""

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
        return off / (1 if self.what == "unknown units" else max(1, self.latency_ns))

    @property
    def right(self) -> bool:
        """See the module."""
        return abs(self.off_frac) <= NAMED_FRAC

    def line(self) -> str:
        """For people."""
        unit = "" if self.what == "unknown units" else " ms"
        scale = MS if unit else 1
        return (
            f"{self.trouble:<14}{self.what:<16}true {self.true[0] / scale:>9.1f}{unit}  recorded "
            f"{self.recorded / scale:>9.1f}{unit}  off {self.off_frac:>7.2%} of the latency"
        )


def play_trouble(what: str, count: int, folder: Path) -> list[Told]:
    """Run a service with a trouble, recorded into `folder`, which is new or empty."""
    told = run(folder, "troubles", what, str(count), more=TROUBLES[what])
    recording = open_recording(folder)
    latency_ns = sum(job.latency_ns for job in recording.jobs if job.route == "victim")
    rows = {name: true if isinstance(true, list) else [true, true] for name, true in told["true_ns"].items()}
    return [Told(what, name, (low, high), _recorded(recording, name), latency_ns) for name, (low, high) in rows.items()]


def _recorded(recording: Recording, name: str) -> float:
    group, _, kind = name.partition(" ")
    victims = [job for job in recording.jobs if job.route == "victim"]
    if group == "held":
        return sum(row.ns for row in recording.held if f"{kind} (" in row.stack)
    if name == "unknown units":
        return sum("began before" in note for note in recording.notes)
    by_kind = [job.wait_ns if group == "wait" else job.io_ns for job in victims]
    return sum(each.get(kind, 0) for each in by_kind)
