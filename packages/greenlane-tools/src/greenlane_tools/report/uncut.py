"""Slices that the interpreter could not cut: C calls that hold the GIL.

A thread that wants the GIL has it after one switch interval, whatever Python code runs. A wait for it during which one
other thread ran for much longer without a break means that no bytecode ran there: a C call held it. A shorter interval
or permits cannot cut such a call; another process can. Rows of blame do not say how often a slice was cut, lives of
jobs do. So this looks at the jobs that waited most for the GIL, and at those that ran meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from greenlane_tools.reader.rows import Job, Process, Segment
from greenlane_tools.report.subject import RecordedRows

__all__ = ["interval_ns", "uncut_fracs"]

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
_KEEPING: Final = (("wait", "os"), ("wait", "blocked"))
_GAP_NS: Final = 1_000
#: Jobs that are looked at: lives are read one by one.
_VICTIMS: Final = 200
_RUNNERS: Final = 1_000


def interval_ns(processes: Iterable[Process]) -> int:
    """The largest switch interval that a process says it had; CPython's 5 ms when none does."""
    found = [process.about.get("interval_ms") for process in processes]
    known = [int(value * 1e6) for value in found if isinstance(value, int | float) and value > 0]
    return max(known, default=_DEFAULT_INTERVAL_NS)


def uncut_fracs(recording: RecordedRows) -> Mapping[str, float]:
    """By culprit: of the waits for it, the share in stretches that were not cut; those without any are left out.

    Looks at the jobs that waited most for the GIL. Cost: the lives of up to 1,200 jobs.
    """
    victims = sorted((job for job in recording.jobs if _waited_ns(job)), key=_waited_ns, reverse=True)[:_VICTIMS]
    lives = _Lives(recording, INTERVALS * interval_ns(recording.processes))
    waited: dict[str, int] = {}
    uncut: dict[str, int] = {}
    # By time: what a large recording has of a part is read once.
    for victim in sorted(victims, key=lambda job: (job.process, job.end_ns)):
        for wait in recording.segments(victim.process, victim.job):
            if wait.state == "wait" and wait.kind in _FOR_GIL and wait.label != "unknown":
                culprit, ns = lives.uncut(victim.process, wait)
                waited[culprit] = waited.get(culprit, 0) + wait.to_ns - wait.from_ns
                uncut[culprit] = uncut.get(culprit, 0) + ns
    return {name: ns / waited[name] for name, ns in uncut.items() if ns}


def _waited_ns(job: Job) -> int:
    return sum(job.wait_ns.get(kind, 0) for kind in _FOR_GIL)


class _Lives:
    """Stretches of CPU of those that ran while others waited, read once each."""

    def __init__(self, recording: RecordedRows, least_ns: int) -> None:
        self._recording = recording
        self._least_ns = least_ns
        self._by_process: dict[int, list[Job]] = {}
        for job in sorted(recording.jobs, key=lambda job: job.arrival_ns):
            if job.cpu_ns >= least_ns:
                self._by_process.setdefault(job.process, []).append(job)
        self._longest_ns = max((job.latency_ns for of in self._by_process.values() for job in of), default=0)
        self._read: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def uncut(self, process: int, wait: Segment) -> tuple[str, int]:
        """(culprit, ns of the wait in its stretches of at least `least_ns`).

        The culprit is the wait's. If that is off its core, or collects, it is who has the most of such stretches.
        """
        least_ns, whole_ns = self._least_ns, wait.to_ns - wait.from_ns
        if whole_ns < least_ns:
            return wait.label, 0
        # Whether a server's own thread asked for the GIL all the while is not known.
        asked_ns = least_ns if wait.kind == "gil" else _NOT_ASKED * least_ns
        total: dict[str, int] = {}
        jobs = self._by_process.get(process, [])
        first = bisect_left(jobs, wait.from_ns - self._longest_ns, key=lambda job: job.arrival_ns)
        for job in islice(jobs, first, None):
            if job.arrival_ns >= wait.to_ns:
                break
            if job.end_ns <= wait.from_ns or wait.label not in (job.route, *_ANYBODY):
                continue
            for begin, end, cpu_ns in self._stretches(job):
                inside = min(end, wait.to_ns) - max(begin, wait.from_ns)
                if inside >= least_ns and cpu_ns >= asked_ns:
                    total[job.route] = total.get(job.route, 0) + inside
        culprit = max(total, key=lambda route: total[route], default=wait.label)
        return culprit, min(total.get(culprit, 0), whole_ns)

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
