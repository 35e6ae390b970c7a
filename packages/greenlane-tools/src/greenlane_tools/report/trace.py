"""Chrome trace events: one track a job, and more beside it where its children ran at the same time. Perfetto opens it.

Async events (`b`, `e`) with an id each: events of one track must nest, and those of different jobs overlap.
Source: "Trace Event Format", the Chromium project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from greenlane_tools.reader.rows import Job, Segment
from greenlane_tools.report.subject import RecordedRows

__all__ = ["MOST_JOBS", "write_trace"]

#: Viewers give up on files of more; the longest jobs are kept.
MOST_JOBS: Final = 5_000


def write_trace(recording: RecordedRows, out: TextIO) -> int:
    """Writes the JSON object; gives how many jobs were left out."""
    chosen = sorted(recording.jobs, key=lambda job: -job.latency_ns)[:MOST_JOBS]
    chosen.sort(key=lambda job: (job.process, job.arrival_ns))
    pids = {process.number: process.pid for process in recording.processes}
    start_ns = min((job.arrival_ns for job in chosen), default=0)
    out.write('{"displayTimeUnit":"ms","traceEvents":[\n')
    first = True
    for event in _events(recording, chosen, pids, start_ns):
        out.write(("" if first else ",\n") + json.dumps(event, separators=(",", ":")))
        first = False
    out.write("\n]}\n")
    return len(recording.jobs) - len(chosen)


def _events(
    recording: RecordedRows, jobs: Sequence[Job], pids: dict[int, int], start_ns: int
) -> Iterator[dict[str, object]]:
    for number, pid in pids.items():
        about = next(process.about for process in recording.processes if process.number == number)
        argv = about.get("argv")
        said = f"{' '.join(map(str, argv)) if isinstance(argv, list) else 'process'} {pid}"
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": said}}
    for job in jobs:
        pid = pids.get(job.process, job.process)
        segments = recording.segments(job.process, job.job)
        for place, lane in enumerate(_lanes(segments)):
            identifier = f"{job.process}.{job.job}" + (f".{place}" if place else "")
            name = (job.route or "job") + (f" beside {place}" if place else "")
            args: dict[str, object] = {"status": job.status, "clock": job.clock, "cpu_ms": job.cpu_ns / 1e6}
            args["wait_ms"] = sum(job.wait_ns.values()) / 1e6
            common: dict[str, object] = {"cat": "job", "id": identifier, "pid": pid, "tid": 0}
            yield {"ph": "b", "name": name, "ts": (job.arrival_ns - start_ns) / 1000, "args": args, **common}
            for each in lane:
                yield from _segment(each, job, start_ns, common)
            yield {"ph": "e", "name": name, "ts": (job.end_ns - start_ns) / 1000, **common}


def _segment(each: Segment, job: Job, start_ns: int, common: dict[str, object]) -> Iterator[dict[str, object]]:
    # Nothing may lie outside the job's own event, or the track would not nest.
    begin = min(max(each.from_ns, job.arrival_ns), job.end_ns)
    end = max(begin, min(each.to_ns, job.end_ns))
    name = f"{each.state} {each.kind}".strip()
    args = {"label": each.label, "unit": each.unit}
    yield {"ph": "b", "name": name, "ts": (begin - start_ns) / 1000, "args": args, **common}
    yield {"ph": "e", "name": name, "ts": (end - start_ns) / 1000, **common}


def _lanes(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Segments in as few rows as leave no overlap in any; one empty row for a job without."""
    lanes: list[list[Segment]] = [[]]
    for each in sorted(segments, key=lambda each: (each.from_ns, each.to_ns)):
        lane = next((lane for lane in lanes if not lane or lane[-1].to_ns <= each.from_ns), None)
        if lane is None:
            lanes.append([each])
        else:
            lane.append(each)
    return lanes
