"""CPU work and jobs for tests of the permits: counted, never timed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import patch

from greenlane.lanes.permits import Permits, make_permits
from greenlane.policy import permits as permit_rules
from greenlane.settings import Settings


def burn(cpu_ms: float) -> None:
    """Use `cpu_ms` of this thread's CPU in pure Python, holding the GIL, except during switches."""
    until = time.thread_time() + cpu_ms / 1000
    value = 0
    while time.thread_time() < until:
        for number in range(200):
            value += number * number


#: What a test may change of the rules, beside settings.
RULES = {"learn_after", "wait_max_ms", "share_ms", "max_routes", "max_phases"}


def permits(mode: str = "on", **values: object) -> Permits:
    """One permit, also where there is no GIL; else the default settings and rules, changed by `values`."""
    rules = {name.upper(): values.pop(name) for name in RULES & values.keys()}
    with patch.multiple(permit_rules, **rules) if rules else nullcontext():  # type: ignore[arg-type] # by name
        return make_permits(Settings(**{"permits": 1, **values}), mode=mode)  # type: ignore[arg-type] # values by name


def teach(given: Permits, route: str, cpu_ms: float = 6.0, runs: int = 4) -> None:
    """Let `route`'s first phase be learned as one of `cpu_ms`."""
    for _ in range(runs):
        given.open(time.monotonic_ns(), 0, route)
        burn(cpu_ms)
        given.close()


def until(reached: Callable[[], bool], timeout_s: float = 10) -> None:
    """Wait for another thread to get somewhere; failing to is a failed test, never a hang."""
    give_up = time.monotonic() + timeout_s
    while not reached():
        assert time.monotonic() < give_up, "what was waited for did not happen"
        time.sleep(0.001)


def together(works: list[Callable[[], object]], timeout_s: float = 20) -> None:
    """Run each on a thread of its own, started together; an exception or a hang fails the test."""
    barrier = threading.Barrier(len(works))
    problems: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert not problems, problems
