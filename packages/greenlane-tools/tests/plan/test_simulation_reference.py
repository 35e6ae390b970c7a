"""The simulator beside obvious slow models: of one queue, with any arrivals, constant services and servers; of a GIL,
with every timer of every waiter."""

from __future__ import annotations

import heapq
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane_tools.plan.simulation import simulate

_NS = 1_000_000


def _latencies_ms(recorded: list[tuple[int, int]], services: list[int], servers: int) -> list[tuple[int, float]]:
    free = [0] * servers
    found = []
    for at, route in sorted(recorded):
        end = max(at, heapq.heappop(free)) + services[route]
        heapq.heappush(free, end)
        found.append((route, float(end - at)))
    return found


@given(
    recorded=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2)), min_size=1, max_size=30),
    services=st.lists(st.integers(1, 60), min_size=3, max_size=3),
    servers=st.integers(1, 3),
    host=st.sampled_from(["threads", "gevent", "asyncio"]),
)
def test_one_queue_before_servers_does_what_a_few_lines_do(recorded, services, servers, host):
    routes = [
        {"route": str(number), "rate_per_s": 1, "sequences": [{"steps": [["cpu", service]]}]}
        for number, service in enumerate(services)
    ]
    profile = {"arrivals": {"recorded": [list(each) for each in recorded]}, "routes": routes}
    set_up = {"host": host, "processes": servers, "queue": "central", "at_once": 1}
    run = simulate(profile, set_up)
    expected = _latencies_ms(recorded, services, servers)
    for number, route in enumerate(run.routes):
        of_route = [latency_ms for which, latency_ms in expected if which == number]
        assert route.done == len(of_route)
        if of_route:
            assert route.mean_ms == pytest.approx(statistics.fmean(of_route), rel=1e-9)
            assert route.max_ms == pytest.approx(max(of_route), rel=1e-9)
            assert route.cpu_ms == pytest.approx(services[number], rel=1e-9)


@given(
    services=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    waits=st.lists(st.integers(1, 50), min_size=4, max_size=4),
    host=st.sampled_from(["threads", "permits", "gevent", "asyncio"]),
    queue=st.sampled_from(["accept", "central"]),
    processes=st.integers(1, 3),
    recorded=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    limit=st.integers(0, 3),
)
def test_nothing_is_lost_and_nothing_is_faster_than_its_work(services, waits, host, queue, processes, recorded, limit):
    steps: list[list[object]] = []
    for service, wait in zip(services, waits, strict=False):
        steps += [["cpu", service], ["io", wait]]
    profile = {
        "arrivals": {"recorded": [[at_ms, 0] for at_ms in recorded]},
        "routes": [{"route": "a", "rate_per_s": 1, "sequences": [{"steps": steps}]}],
    }
    set_up = {"host": host, "queue": queue, "processes": processes, "limit": limit, "at_once": 2}
    run = simulate(profile, set_up)
    assert (run.routes[0].done, run.unfinished) == (len(recorded), 0)
    alone_ms = sum(services) + sum(waits[: len(services)])
    assert run.routes[0].percentile_ms(0.0) >= alone_ms * 0.995
    assert run.routes[0].cpu_ms == pytest.approx(sum(services))
    # Nobody is faster than the CPU of all by the processes.
    busy_ms = len(recorded) * sum(services) / processes
    assert run.seconds * 1000 >= max(alone_ms, busy_ms) - 1e-6


class _Waiter:
    """A thread in CPython's `take_gil`."""

    def __init__(self, who: int, now: int, number: int) -> None:
        self.who = who
        self.wait(now, number)

    def wait(self, now: int, number: int) -> None:
        self.over, self.number = now + _INTERVAL, number


_INTERVAL = 5 * _NS


def _under_a_gil(requests: list[tuple[int, int]]) -> list[int]:
    """Latencies of threads that come at these times, ns, and compute for so long; times end in numbers of their own."""
    left = [service for _, service in requests]
    coming = sorted(range(len(requests)), key=lambda who: requests[who][0], reverse=True)
    latencies = [0] * len(requests)
    waiting: list[_Waiter] = []
    holder, last, began, number, now = -1, -1, 0, 0, 0

    def take(who: int) -> None:
        nonlocal holder, last, began, number
        number += who != last
        holder, last, began = who, who, now

    while coming or holder >= 0:
        ends = [began + left[holder]] if holder >= 0 else []
        comes = [requests[coming[-1]][0]] if coming else []
        now = min([*ends, *comes, *(each.over for each in waiting)])
        asked = False
        for each in [each for each in waiting if each.over == now]:
            asked |= each.number == number
            waiting.remove(each)
            each.wait(now, number)
            waiting.append(each)
        if ends == [now]:
            latencies[holder] = now - requests[holder][0]
            holder = -1
            if waiting:
                take(waiting.pop(0).who)
        elif asked:
            dropped = holder
            left[dropped] -= now - began
            take(waiting.pop(0).who)
            waiting.append(_Waiter(dropped, now, number))
        if comes == [now]:
            who = coming.pop()
            if holder < 0:
                take(who)
            else:
                waiting.append(_Waiter(who, now, number))
    return latencies


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=9))
def test_threads_get_the_gil_as_a_model_of_every_timer_says(requests):
    # No two come in the same microsecond of a millisecond: then no event of one falls together with another's.
    timed = [(at * _NS + (number + 1) * 7_000, service * _NS) for number, (at, service) in enumerate(requests)]
    recorded = [[at / _NS, number] for number, (at, _) in enumerate(timed)]
    routes = [
        {"route": str(number), "rate_per_s": 1, "sequences": [{"steps": [["cpu", service]]}]}
        for number, (_, service) in enumerate(requests)
    ]
    profile = {"arrivals": {"recorded": recorded}, "routes": routes}
    run = simulate(profile, {"host": "threads"})
    found = [route.mean_ms for route in run.routes]
    assert found == pytest.approx([latency / _NS for latency in _under_a_gil(timed)], rel=1e-9)
