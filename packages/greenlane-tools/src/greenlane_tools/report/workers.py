"""Workers and their load: against each other and second by second, how the load came, signals for an autoscaler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from greenlane_tools.reader.rows import Job, Process, Sample
from greenlane_tools.report.split import nearest

__all__ = [
    "Balance",
    "Load",
    "Scaling",
    "RecordedWorker",
    "balance_of",
    "busy_over_time",
    "lag_over_time",
    "load_of",
    "scaling_of",
]

#: Ends of a recording, where a load rises and falls, as shares of its time.
_EDGE_FRAC: Final = 0.1
#: A mean this near to the most says that somebody kept the number full. Open arrivals of N on average reach far above.
_CLOSED_FRAC: Final = 0.9
_LEAST_CLIENTS: Final = 4
_LEAST_JOBS: Final = 100


@dataclass(frozen=True)
class RecordedWorker:
    """One process that serves."""

    process: int
    pid: int
    jobs: int
    jobs_frac: float
    #: CPU used per second of wall time; 1 = one core all the time. None: the recording has no samples of it.
    busy_frac: float | None
    busiest_second_frac: float | None
    #: Of its samples' largest lateness each second; None likewise.
    lag_p50_ns: int | None
    lag_p99_ns: int | None
    #: Jobs in progress at the same time, mean: Little's N = their summed latency by the time.
    in_progress: float
    latency_p99_ns: int | None
    os_wait_frac: float | None
    #: Of the wall time the GIL was nobody's although a thread waited for it: that one was waking. None: no samples.
    waking_frac: float | None
    #: Times that a thread got the GIL for which it waited, and the mean from its release until that thread ran.
    hand_overs: int
    mean_waking_ns: int
    rss_bytes: int


@dataclass(frozen=True)
class Balance:
    """All of them."""

    workers: Sequence[RecordedWorker]
    #: Largest count of jobs by the mean of all; 1 = even, None = no jobs.
    max_to_mean: float | None
    #: Gini coefficient of the jobs' counts; 0 = even, 1 - 1/n = one has them all.
    gini: float | None
    #: Processes that serve nothing by design: parents of the others, and other programs.
    parents: Sequence[int]

    @property
    def hottest(self) -> RecordedWorker | None:
        """The worker with the largest busy share."""
        known = [worker for worker in self.workers if worker.busy_frac is not None]
        return max(known, key=lambda worker: worker.busy_frac or 0.0, default=None)

    @property
    def mean_busy_frac(self) -> float | None:
        """Of all workers: what a host's dashboard shows."""
        known = [worker.busy_frac for worker in self.workers if worker.busy_frac is not None]
        return sum(known) / len(known) if known else None


def balance_of(processes: Sequence[Process], jobs: Iterable[Job], samples: Iterable[Sample]) -> Balance:
    """Workers by the number of their jobs, most first."""
    by_process: dict[int, list[Job]] = {}
    for job in jobs:
        by_process.setdefault(job.process, []).append(job)
    sampled: dict[int, list[Sample]] = {}
    for sample in samples:
        sampled.setdefault(sample.process, []).append(sample)
    idle = _bystanders(processes, by_process)
    whole = sum(map(len, by_process.values()))
    workers = [
        _worker(process, by_process.get(process.number, []), sampled.get(process.number, []), whole)
        for process in processes
        if process.number not in idle
    ]
    workers.sort(key=lambda worker: (-worker.jobs, worker.process))
    counts = [worker.jobs for worker in workers]
    even = whole / len(counts) if counts else 0
    return Balance(
        workers=workers,
        max_to_mean=max(counts) / even if even else None,
        gini=_gini(counts) if even else None,
        parents=idle,
    )


def _bystanders(processes: Sequence[Process], by_process: Mapping[int, Sequence[Job]]) -> list[int]:
    """Processes without jobs that are no idle workers: an idle worker is a sibling of one that serves."""
    serving = {_kin(process) for process in processes if process.number in by_process}
    parents = {process.about.get("parent_pid") for process in processes}
    return [
        each.number
        for each in processes
        if each.number not in by_process and (each.pid in parents or (bool(serving) and _kin(each) not in serving))
    ]


def _kin(process: Process) -> tuple[object, str]:
    """What the workers of one server have in common: their parent and their name."""
    return process.about.get("parent_pid"), str(process.about.get("argv"))


def busy_over_time(samples: Iterable[Sample], start_ns: int) -> dict[int, list[tuple[float, float]]]:
    """(ns since the start, CPU by wall time since the sample before) by process."""
    found: dict[int, list[tuple[float, float]]] = {}
    for process, of in _by_process(samples).items():
        steps = _cpu_steps(of)
        found[process] = [(after.at_ns - start_ns, cpu_ns / wall_ns) for after, cpu_ns, wall_ns in steps if wall_ns > 0]
    return found


def lag_over_time(samples: Iterable[Sample], start_ns: int) -> dict[int, list[tuple[float, float]]]:
    """(ns since the start, largest lateness in ns since the sample before) by process."""
    return {
        process: [(each.at_ns - start_ns, each.lag_ns) for each in of] for process, of in _by_process(samples).items()
    }


def _by_process(samples: Iterable[Sample]) -> Mapping[int, list[Sample]]:
    found: dict[int, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.process, []).append(sample)
    for of in found.values():
        of.sort(key=lambda each: each.at_ns)
    return found


def _cpu_steps(samples: Sequence[Sample]) -> list[tuple[Sample, int, int]]:
    """(sample, CPU ns and wall ns since the one before): samples count from the process's start."""
    return [
        (after, max(0, after.cpu_ns - before.cpu_ns), after.at_ns - before.at_ns) for before, after in pairwise(samples)
    ]


def _worker(process: Process, jobs: Sequence[Job], samples: Sequence[Sample], whole: int) -> RecordedWorker:
    ordered = sorted(samples, key=lambda each: each.at_ns)
    steps = [step for step in _cpu_steps(ordered) if step[2] > 0]
    wall_ns = sum(step[2] for step in steps)
    lags = sorted(each.lag_ns for each in ordered)
    latencies = sorted(job.latency_ns for job in jobs)
    length_ns = max(1, process.to_ns - process.from_ns)
    waking_ns = ordered[-1].waking_ns - ordered[0].waking_ns if ordered else 0
    hand_overs = ordered[-1].hand_overs - ordered[0].hand_overs if ordered else 0
    return RecordedWorker(
        process=process.number,
        pid=process.pid,
        jobs=len(jobs),
        jobs_frac=len(jobs) / whole if whole else 0.0,
        busy_frac=sum(step[1] for step in steps) / wall_ns if wall_ns else None,
        busiest_second_frac=max(cpu / wall for _, cpu, wall in steps) if steps else None,
        lag_p50_ns=nearest(lags, 0.5) if lags else None,
        lag_p99_ns=nearest(lags, 0.99) if lags else None,
        in_progress=sum(latencies) / length_ns,
        latency_p99_ns=nearest(latencies, 0.99) if latencies else None,
        os_wait_frac=(ordered[-1].os_wait_ns - ordered[0].os_wait_ns) / wall_ns if wall_ns else None,
        waking_frac=waking_ns / wall_ns if wall_ns else None,
        hand_overs=hand_overs,
        mean_waking_ns=waking_ns // max(1, hand_overs),
        rss_bytes=max((each.rss_bytes for each in ordered), default=0),
    )


def _gini(counts: Sequence[int]) -> float:
    """Source: C. Gini (1912), by ranks of the ascending values."""
    ordered = sorted(counts)
    ranked = sum((2 * rank - len(ordered) - 1) * value for rank, value in enumerate(ordered, 1))
    return ranked / (len(ordered) * sum(ordered))


@dataclass(frozen=True)
class Load:
    """Of the middle of the recording."""

    #: X, R and N of Little's law, N = X·R: jobs that ended a second, their mean latency, jobs in progress.
    per_s: float
    latency_ns: float
    in_progress: float
    most_in_progress: int
    #: The number in progress was kept full: a benchmark of waiting clients, not arrivals of a public.
    closed: bool


def load_of(jobs: Iterable[Job]) -> Load:
    """Zeros without jobs."""
    ended = list(jobs)
    if not ended:
        return Load(0, 0, 0, 0, False)
    first, last = min(job.arrival_ns for job in ended), max(job.end_ns for job in ended)
    edge = int((last - first) * _EDGE_FRAC)
    begin, end = first + edge, max(last - edge, first + edge + 1)
    steps = sorted([(job.arrival_ns, 1) for job in ended] + [(job.end_ns, -1) for job in ended])
    now = most = area = 0
    at_ns = begin
    for moment, step in steps:
        if moment > begin:
            until = min(moment, end)
            if until > at_ns:
                area += now * (until - at_ns)
                most = max(most, now)
                at_ns = until
        now += step
    inside = [job for job in ended if begin <= job.end_ns <= end]
    in_progress = area / (end - begin)
    closed = len(ended) >= _LEAST_JOBS and most >= _LEAST_CLIENTS and in_progress >= _CLOSED_FRAC * most
    latency_ns = sum(job.latency_ns for job in inside) / max(1, len(inside))
    return Load(len(inside) / ((end - begin) / 1e9), latency_ns, in_progress, most, closed)


@dataclass(frozen=True)
class Scaling:
    """Over the whole recording; None = not sampled, or no jobs."""

    #: Of the largest lateness in each second of each process.
    lag_p99_ns: int | None
    #: Of what jobs waited before anything ran for them: accept queue and pools.
    queue_wait_p99_ns: int | None
    #: Busy share of the hottest worker, of its busiest second, and the mean of all (what a CPU dashboard shows).
    hottest_busy_frac: float | None
    hottest_second_frac: float | None
    mean_busy_frac: float | None


def scaling_of(jobs: Iterable[Job], samples: Sequence[Sample], balance: Balance) -> Scaling:
    """The signals."""
    lags = sorted(sample.lag_ns for sample in samples)
    queued = sorted(sum(job.wait_ns.get(kind, 0) for kind in ("accept", "pool", "queue")) for job in jobs)
    hottest = balance.hottest
    return Scaling(
        lag_p99_ns=nearest(lags, 0.99) if lags else None,
        queue_wait_p99_ns=nearest(queued, 0.99) if queued else None,
        hottest_busy_frac=hottest.busy_frac if hottest else None,
        hottest_second_frac=hottest.busiest_second_frac if hottest else None,
        mean_busy_frac=balance.mean_busy_frac,
    )
