"""Loads that once made permits worse than plain threads, and what they do to the latency of each class.

Each is a list of jobs: when it comes, its route, and its steps. A step computes for some ms, waits for some ms (a
blocking call that probes see), hashes without the GIL, or does what else a thread may do. The same list runs with
permits on and off.
"""

from __future__ import annotations

import functools
import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.lanes.burners import burn

from greenlane.lanes.permits import Permits

Step = tuple[str, float]
_LOCK = threading.Lock()
_THREADS = 32


class Job(NamedTuple):
    """One request."""

    at_s: float
    route: str
    steps: tuple[Step, ...]
    #: How long after its arrival it is late; 0 = never.
    due_s: float = 0.0


def each(
    drawn: random.Random,
    every_ms: float,
    until_s: float,
    route: str,
    *steps: Step,
    from_s: float = 0.0,
    due_s: float = 0.0,
) -> list[Job]:
    """Jobs of one route, by a Poisson process of its own."""
    found, at_s = [], from_s
    while (at_s := at_s + drawn.expovariate(1000 / every_ms)) < until_s:
        found.append(Job(at_s, route, steps, due_s))
    return found


def _long_phase(drawn: random.Random) -> list[Job]:
    return [
        Job(0.1, "long", (("cpu", 1_500.0),)),
        *each(drawn, 60, 2.0, "quote", ("cpu", 20.0)),
        *each(drawn, 40, 2.0, "short", ("cpu", 6.0)),
    ]


def _stampede(drawn: random.Random) -> list[Job]:
    jobs = each(drawn, 12, 1.5, "cached", ("cpu", 1.0))
    missed = [
        Job(one.at_s, one.route, (("cpu", 40.0),)) if number % 10 == 3 else one for number, one in enumerate(jobs)
    ]
    return [*missed, *each(drawn, 50, 1.5, "quote", ("cpu", 15.0))]


def _calls(drawn: random.Random, most: int, cpu_ms: float) -> list[Job]:
    calls = [(("cpu", 0.3), ("wait", 2.0)) * drawn.randint(1, most) for _ in range(60)]
    rows = [
        Job(one.at_s, "rows", (*steps, ("cpu", cpu_ms)))
        for one, steps in zip(each(drawn, 2.5 * cpu_ms, 2.0, "rows"), calls, strict=False)
    ]
    return [
        *rows,
        *each(drawn, 40, 2.0, "short", ("cpu", 6.0)),
        *each(drawn, 30, 2.0, "light", ("cpu", 1.0), ("wait", 10.0), ("cpu", 1.0)),
    ]


def _endpoints(drawn: random.Random) -> list[Job]:
    return [*each(drawn, 15, 1.8, "tiny", ("cpu", 1.0)), *each(drawn, 110, 1.8, "big", ("cpu", 45.0))]


def _exports(drawn: random.Random) -> list[Job]:
    export = (("cpu", 10.0), ("wait", 1.0)) * 60
    return [
        Job(0.0, "export", export),
        Job(0.05, "export", export),
        *each(drawn, 60, 1.8, "short", ("cpu", 6.0)),
        *each(drawn, 120, 1.8, "quote", ("cpu", 20.0)),
    ]


def _late(drawn: random.Random) -> list[Job]:
    return [*each(drawn, 60, 1.6, "late", ("cpu", 20.0), due_s=0.001), *each(drawn, 60, 1.6, "quote", ("cpu", 20.0))]


def _back(drawn: random.Random) -> list[Job]:
    return [
        *each(drawn, 120, 1.8, "back", ("unseen", 30.0), ("cpu", 30.0)),
        *each(drawn, 60, 1.8, "quote", ("cpu", 20.0)),
    ]


def _six_phases(drawn: random.Random) -> list[Job]:
    six = (("cpu", 8.0), ("wait", 1.0)) * 6
    return [
        *[Job(0.01 * n, "six", six) for n in range(8)],
        *[Job(0.01 * n, "one", (("cpu", 12.0),)) for n in range(20)],
    ]


def _spins(drawn: random.Random) -> list[Job]:
    return [*each(drawn, 200, 1.6, "spins", ("spin", 60.0)), *each(drawn, 60, 1.6, "quote", ("cpu", 20.0))]


def _scanner(drawn: random.Random) -> list[Job]:
    found = [Job(0.0005 * n, f"/wp-{n}.php", (("cpu", 0.05),)) for n in range(700)]
    return [
        *found,
        *each(drawn, 50, 1.8, "quote", ("cpu", 20.0), from_s=0.4),
        *each(drawn, 40, 1.8, "light", ("cpu", 1.0), ("wait", 10.0), ("cpu", 1.0), from_s=0.4),
    ]


def _hidden_lock(drawn: random.Random) -> list[Job]:
    return [
        *each(drawn, 90, 1.6, "keeps", ("locked", 25.0)),
        *each(drawn, 60, 1.6, "wants", ("locked", 0.5)),
        *each(drawn, 90, 1.6, "quote", ("cpu", 20.0)),
    ]


def _without_the_gil(drawn: random.Random) -> list[Job]:
    return [
        *each(drawn, 90, 1.8, "hashes", ("cpu", 1.0), ("native", 70.0)),
        *each(drawn, 40, 1.8, "short", ("cpu", 6.0)),
        *each(drawn, 50, 1.8, "quote", ("cpu", 20.0)),
    ]


def _overload(drawn: random.Random) -> list[Job]:
    return [
        *each(drawn, 16, 1.2, "quote", ("cpu", 20.0)),
        *each(drawn, 30, 1.2, "light", ("cpu", 1.0), ("wait", 10.0), ("cpu", 1.0)),
    ]


def _change(drawn: random.Random) -> list[Job]:
    return [
        *each(drawn, 20, 0.6, "changes", ("cpu", 1.0)),
        *each(drawn, 45, 1.8, "changes", ("cpu", 20.0), from_s=0.6),
        *each(drawn, 60, 1.8, "quote", ("cpu", 15.0)),
    ]


def _hogs(drawn: random.Random) -> list[Job]:
    return [
        *each(drawn, 2_700, 4.0, "hog", ("cpu", 400.0)),
        *each(drawn, 60, 4.0, "quote", ("wait", 10.0), ("cpu", 20.0)),
        *each(drawn, 60, 4.0, "short", ("cpu", 6.0)),
        *each(drawn, 25, 4.0, "light", ("cpu", 1.0), ("wait", 10.0), ("cpu", 1.0)),
    ]


def _eight_tenths(drawn: random.Random) -> list[Job]:
    return [
        *each(drawn, 80, 4.0, "quote", ("wait", 20.0), ("cpu", 40.0)),
        *each(drawn, 60, 4.0, "short", ("cpu", 6.0)),
        *each(drawn, 15, 4.0, "light", ("cpu", 1.0), ("wait", 10.0), ("cpu", 1.0)),
    ]


#: No class may take more than 1.2 times as long as without permits, on average.
ATTACKS: dict[str, Callable[[random.Random], list[Job]]] = {
    "a phase of 1.5 s beside quotes": _long_phase,
    "a cache that misses one time in ten": _stampede,
    "one to ten calls before it computes": lambda drawn: _calls(drawn, 10, 20.0),
    "one to thirty calls before 40 ms": lambda drawn: _calls(drawn, 30, 40.0),
    "an endpoint of 1 ms beside one of 45": _endpoints,
    "two streaming exports": _exports,
    "late jobs": _late,
    "a holder that sleeps unseen and comes back": _back,
    "jobs of six phases in a backlog": _six_phases,
    "spins": _spins,
    "a scanner's storm, then real routes": _scanner,
    "a lock that nobody sees": _hidden_lock,
    "hashes of 70 ms without the GIL": _without_the_gil,
    "phases of 400 ms now and then": _hogs,
    "eight tenths of what it can do": _eight_tenths,
    "1.3 times as much as it can do": _overload,
    "behaviour that changes in mid-run": _change,
}


def pricing_mix(drawn: random.Random) -> list[Job]:
    """What the demo serves, at some half of a core."""
    return [
        *each(drawn, 120, 2.0, "quote", ("wait", 20.0), ("cpu", 40.0)),
        *each(drawn, 120, 2.0, "short", ("cpu", 6.0)),
        *each(drawn, 60, 2.0, "light", ("cpu", 1.0), ("wait", 10.0), ("cpu", 1.0)),
    ]


def ran(given: Permits, jobs: Iterable[Job]) -> dict[str, list[float]]:
    """Latencies by route, s, from when each job was due."""
    todo, took, lock = iter(sorted(jobs)), [], threading.Lock()
    began_s = time.monotonic() + 0.05

    def serve() -> None:
        while True:
            with lock:
                job = next(todo, None)
            if job is None:
                return
            time.sleep(max(0.0, began_s + job.at_s - time.monotonic()))
            _run(given, job, int((began_s + job.at_s) * 1e9))
            took.append((job.route, time.monotonic() - began_s - job.at_s))

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(_THREADS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert not any(one.is_alive() for one in threads), "a thread hangs"
    found: dict[str, list[float]] = {}
    for route, latency_s in took:
        found.setdefault(route if not route.startswith("/") else "scanned", []).append(latency_s)
    return found


@functools.cache
def _rounds_per_ms() -> float:
    began_s, rounds = time.thread_time(), 50_000
    hashlib.pbkdf2_hmac("sha256", b"", b"", rounds)
    return rounds / 1000 / (time.thread_time() - began_s)


def _run(given: Permits, job: Job, arrival_ns: int) -> None:
    given.open(arrival_ns, arrival_ns + int(job.due_s * 1e9) if job.due_s else 0, job.route)
    for kind, ms in job.steps:
        if kind == "cpu":
            burn(ms)
        elif kind == "wait":
            given.leave(0)
            time.sleep(ms / 1000)
            given.enter()
        elif kind == "unseen":
            time.sleep(ms / 1000)
        elif kind == "native":
            hashlib.pbkdf2_hmac("sha256", b"", b"", round(ms * _rounds_per_ms()))
        elif kind == "locked":
            with _LOCK:
                burn(ms)
        else:
            until_s = time.monotonic() + ms / 1000
            while time.monotonic() < until_s:
                pass
    given.close()
