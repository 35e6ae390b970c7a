"""What runs the recorded requests, and how many at a time: as the recording and the processes' command lines say it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from greenlane_tools.reader.rows import Job, Process

__all__ = ["host_of", "slots_of"]

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
