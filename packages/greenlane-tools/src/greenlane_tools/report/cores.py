"""What keeps cores from jobs and is the service's own: its CPU quota, and native threads of its libraries."""

from __future__ import annotations

from typing import Final

from greenlane_tools.report.subject import RecordedRows
from greenlane_tools.report.workers import balance_of

__all__ = ["is_throttled", "native_computer"]

#: Cores that a process with a GIL does not use by itself.
_NATIVE_FRAC: Final = 1.3
#: Of a process' CPU time, what no job of it has used: then native threads have, if jobs compute without the GIL.
_APART_FRAC: Final = 0.15
#: Of the seconds of a process, those in which it had no quota for a tenth of the time. Arbitrary.
_THROTTLED_FRAC: Final = 0.4


def is_throttled(recording: RecordedRows) -> bool:
    """Whether a process that has jobs had no CPU quota left in many of its seconds."""
    seconds: dict[int, int] = {}
    for process, _, what in recording.marks:
        seconds[process] = seconds.get(process, 0) + (what == "throttled")
    served: dict[int, tuple[int, int]] = {}
    for job in recording.jobs:
        first_ns, last_ns = served.get(job.process, (job.arrival_ns, 0))
        served[job.process] = min(first_ns, job.arrival_ns), max(last_ns, job.arrival_ns + job.latency_ns)
    return any(
        count and count * 1e9 >= _THROTTLED_FRAC * (served[process][1] - served[process][0])
        for process, count in seconds.items()
        if process in served
    )


def native_computer(recording: RecordedRows) -> str:
    """The route whose jobs compute in native threads beside their own; "" = there is none.

    Its process uses more than a core. On a busy machine it does not get that: then it uses more CPU time than its jobs,
    which compute without the GIL.
    """
    routes = {(job.process, job.job): job.route for job in recording.jobs}
    cpu: dict[str, int] = {}
    for job in recording.jobs:
        cpu[job.route] = cpu.get(job.route, 0) + job.cpu_ns
    free: dict[str, int] = {}
    for look in recording.looks:
        route = routes.get((look.process, look.job), "")
        free[route] = free.get(route, 0) + 2 * look.free_ns - look.ns
    who = max(free, key=lambda each: free[each], default="")
    if who and free[who] > 0 and _apart_frac(recording) >= _APART_FRAC:
        return who
    hottest = balance_of(recording.processes, recording.jobs, recording.samples).hottest
    busy_frac = hottest.busy_frac if hottest else None
    return max(cpu, key=lambda each: cpu[each], default="") if busy_frac and busy_frac >= _NATIVE_FRAC else ""


def _apart_frac(recording: RecordedRows) -> float:
    """Of the CPU time of processes that have jobs, the share that their jobs have not used."""
    jobs: dict[int, int] = {}
    for job in recording.jobs:
        jobs[job.process] = jobs.get(job.process, 0) + job.cpu_ns
    used: dict[int, list[int]] = {}
    for sample in recording.samples:
        if sample.process in jobs:
            used.setdefault(sample.process, []).append(sample.cpu_ns)
    whole = sum(max(each) - min(each) for each in used.values())
    return 1 - sum(jobs.values()) / whole if whole else 0.0
