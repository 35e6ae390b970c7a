"""What was running at the end: the last question of a worker that was killed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import count, duration
from greenlane_tools.reader.rows import Process, Unfinished
from greenlane_tools.report.culprits import StackFrame, own_frame

__all__ = ["ProcessEnding", "ending_sentence", "endings_of", "place_of"]

#: What the recorder marks when it ends in order, when it is switched off, and when a server aborts its worker.
_END: Final = "end"
_OFF: Final = "off"
_ABORT: Final = "abort"
#: Hosts whose workers have one thread: whatever runs there keeps the heartbeat from the arbiter.
_ONE_THREAD: Final = frozenset({"gunicorn.sync"})

#: How a process ended -> as a sentence begins.
_ENDED: Final = {
    "aborted": "Worker {pid} was aborted by its server, which had not heard from it (a worker timeout)",
    "cut": "The recording of process {pid} breaks off: it was killed, or still runs",
    "off": "When recording was switched off in process {pid}, jobs were in progress",
    "ended": "When process {pid} ended, jobs were in progress",
}


@dataclass(frozen=True)
class ProcessEnding:
    """One process that ended with jobs in progress."""

    process: Process
    #: aborted, cut (killed, or it still runs), off (recording was switched off), ended (in order).
    how: str
    at_ns: int
    #: Those that ran first, then the oldest.
    jobs: Sequence[Unfinished]

    @property
    def runner(self) -> Unfinished | None:
        """The job that had been running for longest; None = all waited."""
        return self.jobs[0] if self.jobs and self.jobs[0].running_ns > 0 else None

    @property
    def starved(self) -> bool:
        """Whether what ran kept everything else of its worker: the loop, and the heartbeat in it."""
        runner = self.runner
        return runner is not None and (runner.held or runner.host in _ONE_THREAD)


def endings_of(
    processes: Sequence[Process], unfinished: Iterable[Unfinished], marks: Iterable[tuple[int, int, str]]
) -> list[ProcessEnding]:
    """Processes that had jobs in progress when they ended; those in which something ran first."""
    jobs: dict[int, list[Unfinished]] = {}
    for each in unfinished:
        jobs.setdefault(each.process, []).append(each)
    said: dict[int, list[tuple[int, str]]] = {}
    for process, at_ns, what in marks:
        said.setdefault(process, []).append((at_ns, what))
    found = [_ending(process, jobs[process.number], said.get(process.number, [])) for process in processes
             if process.number in jobs]  # fmt: skip
    return sorted(found, key=lambda each: -(each.runner.running_ns if each.runner else 0))


def ending_sentence(found: ProcessEnding) -> str:
    """In words: who ran, where, for how long, and who could not meanwhile."""
    begun, runner = _ENDED[found.how].format(pid=found.process.pid), found.runner
    others = len(found.jobs) - (runner is not None)
    if runner is None:
        oldest = min(found.jobs, key=lambda job: job.arrival_ns)
        return (
            f"{begun}. None of its {count(others)} jobs in progress ran; the oldest, {oldest.route}, had arrived "
            f"{duration(found.at_ns - oldest.arrival_ns)} before."
        )
    frame = place_of(runner)
    at = f" at {frame.place}" if frame else ""
    kept = " and kept its loop, the heartbeat with it" if found.starved else ""
    waited = f"; {count(others)} other job{'s' * (others != 1)} in progress" if others else ""
    return f"{begun}: {runner.route} had been running for {duration(runner.running_ns)}{at}{kept}{waited}."


def place_of(job: Unfinished) -> StackFrame | None:
    """The line at which it was last seen; None = it was not looked at."""
    return own_frame(job.stack)


def _ending(process: Process, jobs: list[Unfinished], marks: list[tuple[int, str]]) -> ProcessEnding:
    aborted_ns = next((at_ns for at_ns, what in sorted(marks) if what == _ABORT), None)
    words = [what for _, what in sorted(marks)]
    if aborted_ns is not None:
        how = "aborted"
    elif _END in words:
        how = "ended"
    else:
        how = "off" if words and words[-1] == _OFF else "cut"
    return ProcessEnding(process, how, process.to_ns if aborted_ns is None else aborted_ns, jobs)
