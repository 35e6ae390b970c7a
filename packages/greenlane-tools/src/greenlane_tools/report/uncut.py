"""Slices that the interpreter could not cut: C calls that hold the GIL.

A thread that wants the GIL has it after one switch interval, whatever Python code runs. A wait for it during which one
other thread ran for much longer without a break means that no bytecode ran there: a C call held it. A shorter interval
or permits cannot cut such a call; another process can. Rows of blame do not say how often a slice was cut, lives of
jobs do. So this looks at the jobs that waited most for the GIL, and at those that ran meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.reader.rows import Job, Process, Segment
from greenlane_tools.report.subject import RecordedRows

__all__ = ["Uncut", "interval_ns", "uncut_of"]

#: CPython's own.
_DEFAULT_INTERVAL_NS: Final = 5_000_000
#: Running on for more than this many intervals while others wait is due to a call; up to it, to the scheduler.
INTERVALS: Final = 2
#: Labels of waits whose culprit was off its core, or collected.
_ANYBODY: Final = ("os", "gc")
#: Python code runs on for this many times as long as that, at most, where nobody may have asked for the GIL. Arbitrary.
_NOT_ASKED: Final = 10
#: Waits for the GIL; a server's own thread that waits for it begins no job.
_FOR_GIL: Final = ("gil", "accept")
#: Waits of a thread that keeps the GIL, and a gap between segments that is none.
_KEEPING: Final = (("wait", "os"), ("wait", "unseen"))
_GAP_NS: Final = 1_000
#: Jobs that are looked at: lives are read one by one.
_VICTIMS: Final = 200
_RUNNERS: Final = 1_000


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
    victims = sorted((job for job in recording.jobs if _waited_ns(job)), key=_waited_ns, reverse=True)
    least_ns = INTERVALS * interval
    lives = _Lives(recording, least_ns)
    looked: dict[str, int] = {}
    uncut: dict[str, int] = {}
    longest: dict[str, int] = {}
    # By time: what a large recording has of a part is read once.
    for victim in sorted(victims[:_VICTIMS], key=lambda job: (job.process, job.end_ns)):
        for wait in recording.segments(victim.process, victim.job):
            if wait.state != "wait" or wait.kind not in _FOR_GIL or wait.label == "unknown":
                continue
            culprit, ns, stretch_ns = lives.uncut(victim.process, wait)
            looked[culprit] = looked.get(culprit, 0) + wait.to_ns - wait.from_ns
            if ns:
                uncut[culprit] = uncut.get(culprit, 0) + ns
                longest[culprit] = max(longest.get(culprit, 0), stretch_ns)
    ranked = sorted(uncut, key=lambda culprit: -uncut[culprit])
    return Uncut(
        interval_ns=interval,
        gil_wait_ns=sum(map(_waited_ns, victims)),
        looked_ns=sum(looked.values()),
        jobs=min(_VICTIMS, len(victims)),
        uncut_ns=sum(uncut.values()),
        culprits=[(name, uncut[name], longest[name]) for name in ranked],
        frac_by_culprit={name: uncut[name] / looked[name] for name in ranked},
    )


def _waited_ns(job: Job) -> int:
    return sum(job.wait_ns.get(kind, 0) for kind in _FOR_GIL)


class _Lives:
    """Stretches of CPU of those that ran while others waited, read once each."""

    def __init__(self, recording: RecordedRows, least_ns: int) -> None:
        self._recording = recording
        self._least_ns = least_ns
        self._by_process: dict[int, list[Job]] = {}
        for job in recording.jobs:
            if job.cpu_ns >= least_ns:
                self._by_process.setdefault(job.process, []).append(job)
        self._read: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def uncut(self, process: int, wait: Segment) -> tuple[str, int, int]:
        """(culprit, ns of the wait in its stretches of at least `least_ns`, the longest of them).

        The culprit is the wait's. If that is off its core, or collects, it is who has the longest stretch there.
        """
        least_ns, whole_ns = self._least_ns, wait.to_ns - wait.from_ns
        if whole_ns < least_ns:
            return wait.label, 0, 0
        if wait.label == "native":  # known to be no bytecode
            return wait.label, whole_ns, whole_ns
        # Whether a server's own thread asked for the GIL all the while is not known.
        asked_ns = least_ns if wait.kind == "gil" else _NOT_ASKED * least_ns
        total: dict[str, int] = {}
        longest: dict[str, int] = {}
        for job in self._by_process.get(process, ()):
            if job.end_ns <= wait.from_ns or job.arrival_ns >= wait.to_ns or wait.label not in (job.route, *_ANYBODY):
                continue
            for begin, end, cpu_ns in self._stretches(job):
                inside = min(end, wait.to_ns) - max(begin, wait.from_ns)
                if inside >= least_ns and cpu_ns >= asked_ns:
                    total[job.route] = total.get(job.route, 0) + inside
                    longest[job.route] = max(longest.get(job.route, 0), end - begin)
        culprit = max(total, key=lambda route: total[route], default=wait.label)
        return culprit, min(total.get(culprit, 0), whole_ns), longest.get(culprit, 0)

    def _stretches(self, job: Job) -> list[tuple[int, int, int]]:
        key = (job.process, job.job)
        if key not in self._read:
            if len(self._read) >= _RUNNERS:
                return []
            self._read[key] = _join(self._recording.segments(*key), self._least_ns)
        return self._read[key]


def _join(life: Iterable[Segment], least_ns: int) -> list[tuple[int, int, int]]:
    """(begin, end, CPU) of stretches with enough CPU; off the core a thread keeps the GIL, so that is no break."""
    found: list[tuple[int, int, int]] = []
    for each in life:
        computes = each.state == "cpu"
        if not computes and (each.state, each.kind) not in _KEEPING:
            continue
        cpu_ns = each.to_ns - each.from_ns if computes else 0
        if found and each.from_ns - found[-1][1] <= _GAP_NS:
            begin, end, before_ns = found[-1]
            found[-1] = begin, max(end, each.to_ns), before_ns + cpu_ns
        elif computes:
            found.append((each.from_ns, each.to_ns, cpu_ns))
    return [stretch for stretch in found if stretch[2] >= least_ns]
