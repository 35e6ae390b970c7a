"""Hog or overcommit, and slices that the interpreter could not cut.

Hog or overcommit: one long burst, or many short ones. A detector of long slices sees only the first, and most tools are
one. The rule here is over the wait itself: of all that jobs waited because somebody else ran, how much came from slices
that alone were long enough to be felt?

Uncut slices are C calls that hold the GIL. A thread that wants the GIL has it after one switch interval, whatever
Python code runs. A wait for it during which one other thread ran for much longer without a break means that no bytecode
ran there: a C call held it. A shorter interval or permits cannot cut such a call; another process can. Rows of blame do
not say how often a slice was cut, lives of jobs do. So this looks at the jobs that waited most for the GIL, and at
those that ran meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.reader.rows import Blame, Job, Process, Segment
from greenlane_tools.report.subject import RecordedRows

__all__ = ["Contention", "Uncut", "contention_of", "interval_ns", "uncut_of"]

#: A slice of at least this is long whatever it makes wait: what a person or a deadline notices. Arbitrary.
LONG_NS: Final = 20_000_000
#: A shorter one is long when it is at least this share of the victim's mean wait, and not below `SHORTEST_NS`.
HALF: Final = 0.5
#: Below this a slice is no burst worth a name: the limit above which Greenlane's permits count a phase as heavy.
SHORTEST_NS: Final = 4_000_000
#: From these shares of long slices on it is called one or the other; between them both. Arbitrary.
HOG_FRAC: Final = 2 / 3
OVERCOMMIT_FRAC: Final = 1 / 3
#: Below this share of all latencies, waiting for others is not worth a name.
WORTH_FRAC: Final = 0.05
#: Waits that somebody else's running causes.
_CONTENDED: Final = ("loop", "gil", "permit", "stopped", "accept")
#: CPython's own.
_DEFAULT_INTERVAL_NS: Final = 5_000_000
#: Running on for more than this many intervals while others wait is due to a call; up to it, to the scheduler.
INTERVALS: Final = 2
#: Jobs that are looked at: lives are read one by one.
_VICTIMS: Final = 200
_RUNNERS: Final = 1_000


@dataclass(frozen=True)
class Contention:
    """The finding; shares 0 to 1."""

    #: "hog", "overcommit", "both", "occupied", or "none".
    verdict: str
    #: Of the contended wait, what came from long slices.
    long_frac: float
    wait_ns: int
    #: (culprit, ns by its long slices, longest slice), most first.
    hogs: Sequence[tuple[str, int, int]]
    #: (culprit, ns by its short slices), most first.
    crowd: Sequence[tuple[str, int]]
    #: Slices that jobs waited for, and their length, by the wait for them: known by powers of two.
    slices: int
    typical_slice_ns: float
    #: Jobs in progress at the same time in one process, mean of the fullest; its busy share (None: not sampled).
    in_progress: float
    busy_frac: float | None
    #: (culprit, ns for which its jobs had workers that others waited for, and were blocked themselves), most first.
    occupied: Sequence[tuple[str, int]] = ()

    @property
    def occupied_ns(self) -> int:
        """All of that; it is none of `wait_ns`."""
        return sum(ns for _, ns in self.occupied)


def contention_of(blame: Iterable[Blame], latency_ns: int, in_progress: float, busy_frac: float | None) -> Contention:
    """Tells the two apart.

    Args:
        latency_ns: of all jobs together: what the wait is measured against.
        in_progress, busy_frac: N and load of the fullest process, for the finding's words.
    """
    rows = [row for row in blame if row.kind in _CONTENDED and row.ns > 0 and row.culprit not in ("os", "unknown")]
    typical = _typical_wait(rows)
    long_ns: dict[str, int] = {}
    short_ns: dict[str, int] = {}
    longest: dict[str, int] = {}
    occupied: dict[str, int] = {}
    weighed_ns2 = 0.0
    for row in rows:
        # Workers that others wait for may be blocked as well as run: then nobody's slice is to blame.
        ran_ns = min(row.ns, sum(row.by_length_ns)) if row.kind == "accept" and row.slices else row.ns
        if ran_ns < row.ns:
            occupied[row.culprit] = occupied.get(row.culprit, 0) + row.ns - ran_ns
        by_long = sum(ns for place, ns in enumerate(row.by_length_ns) if _long(place, typical[row.victim, row.kind]))
        by_long = min(by_long, ran_ns)
        long_ns[row.culprit] = long_ns.get(row.culprit, 0) + by_long
        short_ns[row.culprit] = short_ns.get(row.culprit, 0) + ran_ns - by_long
        longest[row.culprit] = max(longest.get(row.culprit, 0), row.longest_ns)
        weighed_ns2 += sum(ns * min(1.5 * (1000 << place), row.longest_ns) for place, ns in enumerate(row.by_length_ns))
    occupied_ns = sum(occupied.values())
    wait_ns = sum(row.ns for row in rows) - occupied_ns
    long_frac = sum(long_ns.values()) / wait_ns if wait_ns else 0.0
    ranked = sorted(long_ns, key=lambda culprit: -long_ns[culprit])
    crowded = sorted(short_ns, key=lambda culprit: -short_ns[culprit])
    return Contention(
        verdict=_verdict(long_frac, wait_ns, occupied_ns, latency_ns),
        long_frac=long_frac,
        wait_ns=wait_ns,
        hogs=[(name, long_ns[name], longest[name]) for name in ranked if long_ns[name] > 0],
        crowd=[(name, short_ns[name]) for name in crowded if short_ns[name] > 0],
        slices=sum(row.slices for row in rows),
        typical_slice_ns=weighed_ns2 / wait_ns if wait_ns else 0.0,
        in_progress=in_progress,
        busy_frac=busy_frac,
        occupied=sorted(occupied.items(), key=lambda item: -item[1]),
    )


def _typical_wait(rows: Iterable[Blame]) -> dict[tuple[str, str], float]:
    """Mean wait by victim and kind: its sum by the number of waits, which the culprit with most parts is nearest to."""
    total: dict[tuple[str, str], int] = {}
    waits: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.victim, row.kind)
        total[key] = total.get(key, 0) + row.ns
        waits[key] = max(waits.get(key, 0), row.waits)
    return {key: total[key] / max(1, waits[key]) for key in total}


def _long(place: int, typical_ns: float) -> bool:
    # By the middle of the bin (its edges are powers of two): 16 to 33 ms counts as over 20 ms, 8 to 16 ms does not.
    length_ns = 1.5 * (1000 << place)
    return length_ns >= LONG_NS or (length_ns >= SHORTEST_NS and length_ns >= HALF * typical_ns)


def _verdict(long_frac: float, wait_ns: int, occupied_ns: int, latency_ns: int) -> str:
    if occupied_ns and occupied_ns >= max(WORTH_FRAC * latency_ns, wait_ns):
        return "occupied"
    if not wait_ns or wait_ns < WORTH_FRAC * latency_ns:
        return "none"
    if long_frac >= HOG_FRAC:
        return "hog"
    return "overcommit" if long_frac <= OVERCOMMIT_FRAC else "both"


@dataclass(frozen=True)
class Uncut:
    """Waits for the GIL in slices that were not cut."""

    interval_ns: int
    #: Of all jobs, and of those that were looked at.
    gil_wait_ns: int
    looked_ns: int
    jobs: int
    uncut_ns: int
    #: (culprit, ns, longest stretch without a cut), most first.
    culprits: Sequence[tuple[str, int, int]]
    #: By culprit: of the wait for it that was looked at, the share that was not cut.
    frac_by_culprit: Mapping[str, float]

    @property
    def frac(self) -> float:
        """Of the wait that was looked at; 0 to 1."""
        return self.uncut_ns / self.looked_ns if self.looked_ns else 0.0


def interval_ns(processes: Iterable[Process]) -> int:
    """The largest switch interval that a process says it had; CPython's 5 ms when none does."""
    found = [process.about.get("interval_ms") for process in processes]
    known = [int(value * 1e6) for value in found if isinstance(value, int | float) and value > 0]
    return max(known, default=_DEFAULT_INTERVAL_NS)


def uncut_of(recording: RecordedRows) -> Uncut:
    """Looks at the jobs that waited most for the GIL. Cost: the lives of up to 1,200 jobs."""
    interval = interval_ns(recording.processes)
    victims = sorted((job for job in recording.jobs if job.wait_ns.get("gil")), key=lambda job: -job.wait_ns["gil"])
    least_ns = INTERVALS * interval
    lives = _Lives(recording, least_ns)
    looked: dict[str, int] = {}
    uncut: dict[str, int] = {}
    longest: dict[str, int] = {}
    # By time: what a large recording has of a part is read once.
    for victim in sorted(victims[:_VICTIMS], key=lambda job: (job.process, job.end_ns)):
        for wait in recording.segments(victim.process, victim.job):
            if (wait.state, wait.kind) != ("wait", "gil"):
                continue
            looked[wait.label] = looked.get(wait.label, 0) + wait.to_ns - wait.from_ns
            ns, stretch_ns = lives.uncut(victim.process, wait)
            if ns:
                uncut[wait.label] = uncut.get(wait.label, 0) + ns
                longest[wait.label] = max(longest.get(wait.label, 0), stretch_ns)
    ranked = sorted(uncut, key=lambda culprit: -uncut[culprit])
    return Uncut(
        interval_ns=interval,
        gil_wait_ns=sum(job.wait_ns["gil"] for job in victims),
        looked_ns=sum(looked.values()),
        jobs=min(_VICTIMS, len(victims)),
        uncut_ns=sum(uncut.values()),
        culprits=[(name, uncut[name], longest[name]) for name in ranked],
        frac_by_culprit={name: uncut[name] / looked[name] for name in ranked},
    )


class _Lives:
    """Stretches of CPU of those that ran while others waited, read once each."""

    def __init__(self, recording: RecordedRows, least_ns: int) -> None:
        self._recording = recording
        self._least_ns = least_ns
        self._by_culprit: dict[tuple[int, str], list[Job]] = {}
        for job in recording.jobs:
            if job.cpu_ns >= least_ns:
                self._by_culprit.setdefault((job.process, job.route), []).append(job)
        self._read: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def uncut(self, process: int, wait: Segment) -> tuple[int, int]:
        """(ns of the wait in stretches of at least `least_ns`, the longest of them): by the wait's culprit."""
        least_ns = self._least_ns
        if wait.to_ns - wait.from_ns < least_ns:
            return 0, 0
        if wait.label == "native":  # known to be no bytecode
            return wait.to_ns - wait.from_ns, wait.to_ns - wait.from_ns
        total = longest = 0
        for job in self._by_culprit.get((process, wait.label), ()):
            if job.end_ns <= wait.from_ns or job.arrival_ns >= wait.to_ns:
                continue
            for begin, end in self._stretches(job):
                inside = min(end, wait.to_ns) - max(begin, wait.from_ns)
                if inside >= least_ns:
                    total += inside
                    longest = max(longest, end - begin)
        return min(total, wait.to_ns - wait.from_ns), longest

    def _stretches(self, job: Job) -> list[tuple[int, int]]:
        key = (job.process, job.job)
        if key not in self._read:
            if len(self._read) >= _RUNNERS:
                return []
            life = self._recording.segments(*key)
            self._read[key] = [
                (each.from_ns, each.to_ns)
                for each in life
                if each.state == "cpu" and each.to_ns - each.from_ns >= self._least_ns
            ]
        return self._read[key]
