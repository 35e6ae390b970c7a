"""No attack makes any class slower than it is without permits."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from tests.lanes.attacks import ATTACKS, Job, pricing_mix, ran
from tests.lanes.burners import permits
from tests.lanes.quotas import quota

# Times, with one core for each run: `make soak`. What CI holds are the decisions (crates/policy) and their counts.
pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.measured, pytest.mark.soak]

#: Interleaved, each with other arrivals: with one pattern of arrivals alone a rule may pass by luck.
_REPETITIONS = 4
#: Times as long as without permits.
_MOST = 1.2
#: Less is lost in what a thread's wake-up takes, s.
_SLACK_S = 0.002


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_class_pays(attack: str) -> None:
    _hold(attack, _ratios(ATTACKS[attack]))


def _hold(attack: str, ratios: dict[str, float]) -> None:
    print(attack, {route: round(ratio, 2) for route, ratio in ratios.items()})
    assert max(ratios.values()) <= _MOST, ratios


@contextlib.contextmanager
def _neighbour() -> Iterator[None]:
    """Another process that spins on the only core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # of this thread, and of what it starts
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        spinning.kill()
        spinning.wait()
        os.sched_setaffinity(0, cores)


@pytest.mark.parametrize("half_a_core", [lambda: quota(0.5), _neighbour], ids=["quota", "neighbour"])
def test_no_class_pays_on_half_a_core(half_a_core: Callable[[], AbstractContextManager[None]]) -> None:
    with half_a_core():
        ratios = _ratios(pricing_mix)
    _hold("half a core", ratios)


def _ratios(make: Callable[[random.Random], list[Job]]) -> dict[str, float]:
    """How many times as long each class takes with permits, on average; the median over the arrivals."""
    ratios: dict[str, list[float]] = {}
    for seed in range(_REPETITIONS):
        given = permits("on")
        on, off = (ran(one, make(random.Random(seed))) for one in (given, permits("off")))
        for route, latencies_s in on.items():
            off_s = statistics.mean(off[route]) + _SLACK_S
            ratios.setdefault(route, []).append(statistics.mean(latencies_s) / off_s)
    return {route: statistics.median(found) for route, found in ratios.items()}
