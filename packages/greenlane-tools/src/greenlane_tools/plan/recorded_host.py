"""What ran the recorded requests, how many at a time, how they came, and the CPU that belongs to none of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, variance
from typing import Final

from greenlane_tools.reader.rows import Job, Look, Process, Sample
from greenlane_tools.report.subject import RecordedRows

# --- CPU that ran without the GIL on a loop.


#: A smaller share is not told from noise.
_LEAST_FRAC: Final = 0.05
#: Fewer looks at a route say nothing of it.
_LEAST_LOOKS: Final = 20
#: Of the CPU of a process' requests: beyond it threads wait for each other there.
_WAITED_FRAC: Final = 0.05
#: Standard errors above `_LEAST_FRAC` that a share must be: short system calls release the GIL as well.
_ERRORS: Final = 2.0


def unlocked_fracs(looks: Iterable[Look], jobs: Mapping[str, Sequence[Job]]) -> Mapping[str, float]:
    """The share of its CPU that ran without the GIL, by route, as looks at a loop's thread tell it; 0 = hardly any.

    Args:
        jobs: by route.

    Routes that were looked at too seldom are not in it, nor are processes whose requests waited for the GIL: who waits
    wakes the recorder, whose looks then meet those moments more often in which nobody does.
    """
    contended = _contended(jobs.values())
    by_job = {(each.process, each.job): each for each in looks if each.process not in contended}
    found: dict[str, float] = {}
    for route, of in jobs.items():
        seen = [each for job in of if (each := by_job.get((job.process, job.job)))]
        count, ns = sum(each.looks for each in seen), sum(each.ns for each in seen)
        if count >= _LEAST_LOOKS and ns:
            frac = sum(each.free_ns for each in seen) / ns
            found[route] = round(frac, 3) if _surely(frac, count) > _LEAST_FRAC else 0.0
    return found


def _contended(jobs: Iterable[Sequence[Job]]) -> set[int]:
    """Processes whose requests waited for the GIL: threads beside the loop run some of them."""
    waited: dict[int, int] = {}
    cpu: dict[int, int] = {}
    for job in (each for of in jobs for each in of):
        waited[job.process] = waited.get(job.process, 0) + job.wait_ns.get("gil", 0)
        cpu[job.process] = cpu.get(job.process, 0) + job.cpu_ns
    return {process for process, ns in waited.items() if ns > _WAITED_FRAC * cpu[process]}


def _surely(frac: float, count: int) -> float:
    """The lower end of the share's interval (Wilson)."""
    square = _ERRORS**2 / count
    return (frac + square / 2 - math.sqrt(square * (frac * (1 - frac) + square / 4))) / (1 + square)


_TASKS: Final = ("celery", "greenlane.work")
#: Hosts whose requests are tasks of asyncio.
_TASK_HOSTS: Final = ("aiohttp", "asgi", "uvicorn", "hypercorn", "granian", "daphne")
#: Our own worker: permits, unless they are switched off.
_PERMITS: Final = ("greenlane.hosts.gunicorn", "greenlane_serve.worker")
#: By host: the option that says how many requests a process has at most, and what it is when nobody says it.
_OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], int | None]]] = {
    "gevent": (("--worker-connections",), 1000),
    "threads": (("--threads",), None),
    "permits": (("--threads",), None),
    "celery": (("-c", "--concurrency"), None),
    "asyncio": (("--limit-concurrency", "--backpressure"), None),
}
_S: Final = 1_000_000_000
#: Fewer seconds say nothing about bursts.
_LEAST_BINS: Final = 10
#: Of the recording, over which the cores' speed is one; fewer of them do not tell its spread.
_STRETCH_NS: Final = 10 * _S
_LEAST_STRETCHES: Final = 3
#: Less than this of a process says nothing.
_LEAST_NS: Final = 2_000_000_000


def host_of(processes: Iterable[Process], jobs: Sequence[Job]) -> str:
    """Of `profile.HOSTS`."""
    known = Counter(job.host for job in jobs).most_common(1)[0][0]
    if known in _TASKS:
        return "celery"
    if known.startswith(_TASK_HOSTS):
        return "asyncio"
    serving = {job.process for job in jobs}
    abouts = [process.about for process in processes if process.number in serving]
    green = any(about.get("threads_are_greenlets") for about in abouts)
    if green or "gevent" in known:
        return "gevent"
    if any("loop" in job.wait_ns for job in jobs):
        return "asyncio"
    words = [word for about in abouts for word in _words(about)]
    permits = any(each in word for each in _PERMITS for word in words)
    return "permits" if permits or any("permit" in job.wait_ns for job in jobs) else "threads"


def slots_of(processes: Iterable[Process], host: str) -> int | None:
    """Requests that a process takes at the same time, by its command line. None = it does not say."""
    options, default = _OPTIONS[host]
    found: int | None = None
    for process in processes:
        words = _words(process.about)
        for word, following in pairwise([*words, ""]):
            name, _, value = word.partition("=")
            short = re.fullmatch(r"(-c)(\d+)", word)
            if name in options and (value or following).isdecimal():
                found = max(found or 0, int(value or following))
            elif short and short[1] in options:
                found = max(found or 0, int(short[2]))
    if host == "gevent" and found is None:
        return default if any("gunicorn" in word for process in processes for word in _words(process.about)) else None
    return found or None


def _words(about: Mapping[str, object]) -> list[str]:
    argv = about.get("argv")
    return [str(word) for word in argv] if isinstance(argv, list) else []


def seen_s(jobs: Sequence[Job], off: float) -> float:
    """For how long requests were watched: from the first arrival to the last and a mean gap, less what was off.

    A single request says nothing of its rate: then it is its latency, at least a second.
    """
    first, last = min(job.arrival_ns for job in jobs), max(job.arrival_ns for job in jobs)
    if len(jobs) < 2 or first == last:
        return max(1.0, max(job.latency_ns for job in jobs) / _S)
    whole = (last - first) / _S
    return max(1e-3, (whole - min(off, 0.99 * whole)) * len(jobs) / (len(jobs) - 1))


def off_s(marks: Iterable[tuple[int, int, str]], jobs: Sequence[Job]) -> float:
    """For how long of that time recording was switched off, mean of the processes that served."""
    first, last = min(job.arrival_ns for job in jobs), max(job.arrival_ns for job in jobs)
    serving = {job.process for job in jobs}
    began: dict[int, int] = {}
    total = 0
    for process, at_ns, what in sorted(marks, key=lambda mark: mark[1]):
        if process not in serving:
            continue
        if what == "off":
            began[process] = max(first, at_ns)
        elif what == "on" and process in began:
            total += max(0, min(last, at_ns) - began.pop(process))
    return total / len(serving) / _S


def spread(arrivals_ns: Sequence[int]) -> float | None:
    """Index of dispersion of the counts in whole seconds: their variance by their mean. None = too short to say.

    The variance is half the mean square of what neighbours differ by (von Neumann, 1941): a warm-up, or a load that
    grows, is no burst in each second.
    """
    first = min(arrivals_ns)
    bins = (max(arrivals_ns) - first) // _S
    if bins < _LEAST_BINS:
        return None
    counts = [0] * bins
    for at_ns in arrivals_ns:
        second = (at_ns - first) // _S
        if second < bins:
            counts[second] += 1
    mean = sum(counts) / bins
    return round(fmean((one - other) ** 2 for one, other in pairwise(counts)) / 2 / mean, 4) if mean else None


def core_speed(samples: Iterable[Sample], first_ns: int, last_ns: int) -> tuple[float | None, float | None]:
    """What the recorder's loop took, us, and the standard deviation of its logarithm between stretches of 10 s, less
    what the looks of one stretch stray: one meets a busy core, the next an idle one.

    None = not known: a recording of an older release, or shorter than three stretches.
    """
    stretches: dict[int, list[int]] = {}
    for sample in samples:
        if sample.loop_ns and first_ns <= sample.at_ns <= last_ns:
            stretches.setdefault((sample.at_ns - first_ns) // _STRETCH_NS, []).append(sample.loop_ns)
    if not stretches:
        return None, None
    loop_us = round(fmean(map(fmean, stretches.values())) / 1e3, 3)
    if len(stretches) < _LEAST_STRETCHES:
        return loop_us, None
    looks = [[math.log(ns) for ns in each] for each in stretches.values()]
    chance = fmean(variance(each) / len(each) if len(each) > 1 else 0.0 for each in looks)
    return loop_us, round(math.sqrt(max(0.0, variance(map(fmean, looks)) - chance)), 4)


def overhead_ms(recording: RecordedRows, jobs: Sequence[Job]) -> float | None:
    """By request. None = the recording does not say: no process was sampled for 2 s while it had requests.

    Of each process, between its first and last sample while requests came: its CPU, less that of the requests that ran
    then (by their part of that time), less that of the recording's own threads.
    """
    first, last = min(job.arrival_ns for job in jobs), max(job.end_ns for job in jobs)
    own_ns = {cost.process: (cost.writer_ns + cost.sampler_ns, cost.at_ns) for cost in recording.costs}
    began_ns = {process.number: process.from_ns for process in recording.processes}
    outside_ns, requests = 0.0, 0.0
    for number, samples in _sampled(recording.samples, first, last).items():
        begin, end = samples[0], samples[-1]
        if end.at_ns - begin.at_ns < _LEAST_NS:
            continue
        cpu_ns, ran = _inside([job for job in jobs if job.process == number], begin.at_ns, end.at_ns)
        cost_ns, until_ns = own_ns.get(number, (0, 0))
        lived_ns = until_ns - began_ns.get(number, until_ns)
        recorder_ns = cost_ns * min(1.0, (end.at_ns - begin.at_ns) / lived_ns) if lived_ns > 0 else 0.0
        outside_ns += end.cpu_ns - begin.cpu_ns - cpu_ns - recorder_ns
        requests += ran
    return max(0.0, outside_ns / requests / 1e6) if requests >= 1 else None


def _sampled(samples: Sequence[Sample], first_ns: int, last_ns: int) -> dict[int, list[Sample]]:
    found: dict[int, list[Sample]] = {}
    for sample in sorted(samples, key=lambda each: each.at_ns):
        if first_ns <= sample.at_ns <= last_ns:
            found.setdefault(sample.process, []).append(sample)
    return found


def _inside(jobs: Sequence[Job], begin_ns: int, end_ns: int) -> tuple[float, float]:
    """CPU and number of the requests in a stretch of time; those across its edges count by their part in it."""
    cpu_ns, requests = 0.0, 0.0
    for job in jobs:
        from_ns, to_ns = max(job.handler_ns, begin_ns), min(job.end_ns, end_ns)
        if from_ns > to_ns:
            continue
        frac = (to_ns - from_ns) / (job.end_ns - job.handler_ns) if job.end_ns > job.handler_ns else 1.0
        cpu_ns += job.cpu_ns * frac
        requests += frac
    return cpu_ns, requests
