"""Chrome trace events for Perfetto: tracks of threads, loops and jobs, and flows from culprits to waits.

Jobs are async events (`b`, `e`) with an id each: events of one track must nest, and those of different jobs overlap.
What ran is a slice (`X`) on its thread or loop. A flow (`s`, `f`) leads from what ran to the wait of a job that it was
the cause of. Source: "Trace Event Format", the Chromium project.

All jobs are written, a process and some thousands of jobs at a time: nothing but those is in memory.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, TextIO

from greenlane_tools.reader.rows import Job, Segment
from greenlane_tools.report.split import lane_of
from greenlane_tools.report.subject import RecordedRows

__all__ = ["write_trace"]

#: Arrows lead between this many consecutive jobs.
_TOGETHER: Final = 2_000
#: A wait shorter than this has no flow.
_FLOWS_FROM_NS: Final = 100_000

_Event = dict[str, object]


def write_trace(recording: RecordedRows, out: TextIO) -> None:
    """Writes the JSON object."""
    chosen = sorted(recording.jobs, key=lambda job: (job.process, job.arrival_ns))
    pids = {process.number: process.pid for process in recording.processes}
    start_ns = min((job.arrival_ns for job in chosen), default=0)
    out.write('{"displayTimeUnit":"ms","traceEvents":[\n')
    first = True
    for event in _events(recording, chosen, pids, start_ns):
        out.write(("" if first else ",\n") + json.dumps(event, separators=(",", ":")))
        first = False
    out.write("\n]}\n")


def _events(
    recording: RecordedRows, jobs: Sequence[Job], pids: dict[int, int], start_ns: int
) -> Iterator[dict[str, object]]:
    for number, pid in pids.items():
        about = next(process.about for process in recording.processes if process.number == number)
        argv = about.get("argv")
        said = f"{' '.join(map(str, argv)) if isinstance(argv, list) else 'process'} {pid}"
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": said}}
    lanes, flows = _Lanes(), count(1)
    for begin in range(0, len(jobs), _TOGETHER):
        together = [(job, recording.segments(job.process, job.job)) for job in jobs[begin : begin + _TOGETHER]]
        for job, segments in together:
            pid = pids.get(job.process, job.process)
            for place, lane in enumerate(_nested(segments)):
                identifier = f"{job.process}.{job.job}" + (f".{place}" if place else "")
                name = (job.route or "job") + (f" beside {place}" if place else "")
                args: _Event = {"status": job.status, "clock": job.clock, "cpu_ms": job.cpu_ns / 1e6}
                args["wait_ms"] = sum(job.wait_ns.values()) / 1e6
                common: _Event = {"cat": "job", "id": identifier, "pid": pid, "tid": 0}
                yield {"ph": "b", "name": name, "ts": (job.arrival_ns - start_ns) / 1000, "args": args, **common}
                for each in lane:
                    yield from _segment(each, job, start_ns, common)
                yield {"ph": "e", "name": name, "ts": (job.end_ns - start_ns) / 1000, **common}
            yield from lanes.slices(job, segments, pid, start_ns)
        yield from lanes.flows(together, pids, start_ns, flows)


class _Lanes:
    """Threads and loops of processes: what ran on them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        #: By process and route, of the jobs that are written together: begin, end and thread of what ran.
        self._ran: dict[tuple[int, str], list[tuple[int, int, int]]] = {}

    def slices(self, job: Job, segments: Sequence[Segment], pid: int, start_ns: int) -> Iterator[_Event]:
        """What the job ran, on its thread or loop."""
        for each in segments:
            if each.state != "cpu":
                continue
            key = (job.process, lane_of(job, each.unit))
            thread = self._numbers.get(key)
            if thread is None:
                thread = self._numbers[key] = len(self._numbers) + 1
                yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": key[1]}}
            self._ran.setdefault((job.process, job.route), []).append((each.from_ns, each.to_ns, thread))
            at, took = (each.from_ns - start_ns) / 1000, (each.to_ns - each.from_ns) / 1000
            yield {
                "ph": "X",
                "cat": "ran",
                "name": job.route or "job",
                "pid": pid,
                "tid": thread,
                "ts": at,
                "dur": took,
            }

    def flows(
        self,
        together: Sequence[tuple[Job, Sequence[Segment]]],
        pids: dict[int, int],
        start_ns: int,
        numbers: count[int],
    ) -> Iterator[_Event]:
        """From what ran to the job that waited for it: to the end of each longer wait."""
        for ran in self._ran.values():
            ran.sort()
        for job, segments in together:
            for each in segments:
                if each.state != "wait" or each.to_ns - each.from_ns < _FLOWS_FROM_NS:
                    continue
                ran = self._ran.get((job.process, each.label), [])
                # The last that began before the wait ended: it is what the job waited for at the end.
                place = bisect_right(ran, (each.to_ns, 0, 0)) - 1
                waits = lane_of(job, each.unit)
                if place < 0 or ran[place][1] <= each.from_ns or (job.process, waits) not in self._numbers:
                    continue
                begin_ns, _, thread = ran[place]
                pid = pids.get(job.process, job.process)
                common: _Event = {"cat": "blame", "name": "waited for", "id": next(numbers), "pid": pid}
                at_ns = max(begin_ns, each.from_ns)
                yield {"ph": "s", "tid": thread, "ts": (at_ns - start_ns) / 1000, **common}
                to = self._numbers[job.process, waits]
                yield {"ph": "f", "bp": "e", "tid": to, "ts": (each.to_ns - start_ns) / 1000, **common}
        self._ran.clear()


def _segment(each: Segment, job: Job, start_ns: int, common: dict[str, object]) -> Iterator[dict[str, object]]:
    # Nothing may lie outside the job's own event, or the track would not nest.
    begin = min(max(each.from_ns, job.arrival_ns), job.end_ns)
    end = max(begin, min(each.to_ns, job.end_ns))
    name = f"{each.state} {each.kind}".strip()
    args = {"label": each.label, "unit": each.unit}
    yield {"ph": "b", "name": name, "ts": (begin - start_ns) / 1000, "args": args, **common}
    yield {"ph": "e", "name": name, "ts": (end - start_ns) / 1000, **common}


def _nested(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Segments in as few rows as leave no overlap in any; one empty row for a job without."""
    lanes: list[list[Segment]] = [[]]
    for each in sorted(segments, key=lambda each: (each.from_ns, each.to_ns)):
        lane = next((lane for lane in lanes if not lane or lane[-1].to_ns <= each.from_ns), None)
        if lane is None:
            lanes.append([each])
        else:
            lane.append(each)
    return lanes
