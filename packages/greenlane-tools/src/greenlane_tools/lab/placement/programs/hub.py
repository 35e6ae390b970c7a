"""A heartbeat and callers on gevent's hub: the twin of `beats`, call for call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from greenlane_tools.lab.placement.programs.beats import AFTER_S, BEAT_S, Count
from greenlane_tools.lab.placement.programs.job import Job
from greenlane_tools.lab.placement.programs.result import pinned


def opened(contender: str, fn: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    """Give what makes one call of `fn(*args)`, again and again."""
    import sys

    import gevent

    if contender == "inline":

        def inline() -> Any:
            found = fn(*args)
            gevent.sleep(0)
            return found

        return inline
    if contender.startswith("to-thread"):
        if contender != "to-thread":
            sys.setswitchinterval(0.0005)
        pool = gevent.get_hub().threadpool
        return lambda: pool.apply(fn, args)
    placed = pinned(contender, fn)
    return lambda: placed(*args)


def measured(job: Job, call: Callable[[], Any], root: int) -> Count:
    """Warm up, then count; see `beats.measured`."""
    import gevent

    count = Count(job, root)
    heart = gevent.spawn(_beats, count)
    _called(count, call, job)
    count.begin()
    if job.callers:
        _called(count, call, job)
    else:
        gevent.sleep(job.seconds)
    count.end()
    gevent.sleep(AFTER_S)
    count.over = True
    heart.get()
    return count


def _called(count: Count, call: Callable[[], Any], job: Job) -> None:
    import gevent

    gevent.joinall([gevent.spawn(_caller, count, call) for _ in range(job.callers)], raise_error=True)


def _beats(count: Count) -> None:
    import gevent

    while not count.over:
        begun_s = time.perf_counter()
        gevent.sleep(BEAT_S)
        count.beat(begun_s)


def _caller(count: Count, call: Callable[[], Any]) -> None:
    import gevent

    before_ns = time.perf_counter_ns()
    while count.take():
        try:
            given = call()
        except Exception as error:
            count.failed(error)
            gevent.sleep(0)
            before_ns = time.perf_counter_ns()
        else:
            now_ns = time.perf_counter_ns()
            count.took(now_ns - before_ns, given)
            before_ns = now_ns
