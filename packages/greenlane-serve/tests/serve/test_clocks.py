"""Requests by clocks: what computes and what is blocked, on threads and on a loop."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from greenlane import phase
from greenlane_serve.worker.clocks import Blocks, Lateness, SampledRequest, Tally, ThreadClocks, stands_in_call
from greenlane_serve.worker.ledger import Ledger, Sums
from greenlane_serve.worker.loop_clocks import LoopClocks

MS = 1_000_000


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    ledger = Ledger()
    yield ledger
    ledger.close()


@pytest.fixture(autouse=True)
def nobody_else_hears() -> Iterator[None]:
    before = phase.subscribers()
    yield
    for observer in phase.subscribers():
        if observer not in before:
            phase.unsubscribe(observer)


def burn(ms: float) -> None:
    until_s = time.thread_time() + ms / 1e3
    while time.thread_time() < until_s:
        pass


def told(tally: Tally, ledger: Ledger) -> Sums:
    tally.turn()
    sums = ledger.read()
    assert sums is not None
    return sums


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns


def test_a_request_is_blocked_while_none_of_its_parts_could_run() -> None:
    clock = Clock()
    sample = SampledRequest(clock)
    sample.run()
    sample.rest()
    assert not sample.rests, "the other part goes on"
    sample.rest()
    assert sample.rests
    clock.now_ns += MS
    sample.run()
    assert not sample.rests
    assert sample.take() == (MS, 1)
    assert sample.take() == (0, 0)


def test_a_request_that_never_ends_is_blocked_from_its_start(ledger: Ledger) -> None:
    clock = Clock()
    tally, sample = Tally(ledger, Lateness(), clock=clock), SampledRequest(clock)
    tally.begin(sample)
    sample.rest()
    seen = []
    for _ in range(3):
        clock.now_ns += 1_000 * MS
        seen.append(told(tally, ledger).blocked_ns)
    assert seen == [1_000 * MS, 2_000 * MS, 3_000 * MS]
    tally.ended("a", 0, sample)
    clock.now_ns += 1_000 * MS
    assert told(tally, ledger).blocked_ns == 3_000 * MS
    clock.now_ns += 1_000 * MS
    assert told(tally, ledger).blocked_ns == 3_000 * MS


def test_a_lock_is_no_wait_unless_it_lasts_as_one_for_an_event_does() -> None:
    clock = Clock()
    sample = SampledRequest(clock)
    for waited_ms, blocked_ms in ((99, 0), (101, 101)):
        sample.rest(lock=True)
        clock.now_ns += waited_ms * MS
        assert sample.take() == (blocked_ms * MS, 0), "as far as it has come"
        sample.run()
    sample.rest(lock=True)
    clock.now_ns += 101 * MS
    sample.run()
    assert sample.take() == (101 * MS, 1)


def test_blocking_calls_of_a_sampled_thread_count_but_for_those_of_others() -> None:
    blocks, sample = Blocks(), SampledRequest()
    phase.leave(phase.Kind.SOCKET)  # nobody hears
    blocks.begin(sample)
    for kinds in ((phase.Kind.SSL, phase.Kind.SOCKET), (phase.Kind.LOCK,)):
        for kind in kinds:
            phase.leave(kind)
        assert sample.rests
        for _ in kinds:
            phase.enter()
        assert not sample.rests
    other = threading.Thread(target=phase.leave, args=(phase.Kind.SOCKET,))
    other.start()
    other.join()
    assert not sample.rests
    assert blocks.end() is sample and blocks.end() is None
    assert blocks not in phase.subscribers()


def test_lateness_is_over_that_of_a_process_that_does_nothing() -> None:
    lateness = Lateness()
    for late_ns in (60_000, 61_000, 5_060_000):
        lateness.took(late_ns)
    assert lateness.sum_ns == 5_001_000
    assert [index for index, count in enumerate(lateness.by_lag) if count] == [0, 1, 13]


def test_one_request_in_some_is_looked_at_when_there_are_many(ledger: Ledger) -> None:
    now_ns = [1_000_000_000]
    tally = Tally(ledger, Lateness(), clock=lambda: now_ns[0])
    assert all(tally.picks() for _ in range(100))
    tally.turn()
    for _ in range(20_000):
        tally.ended("a", 1, None)
    now_ns[0] += 1_000_000_000
    tally.turn()
    picked = sum(tally.picks() for _ in range(20_000))
    assert 50 <= picked <= 200


def test_a_thread_tells_cpu_of_each_request_and_its_route(ledger: Ledger) -> None:
    tally = Tally(ledger, lateness := Lateness())
    clocks = ThreadClocks(tally, lateness)

    def serve() -> None:
        for number in range(3):
            clocks.begin()
            burn(2)
            if number:
                phase.name("GET /bikes/<id>")
            phase.leave(phase.Kind.SOCKET)
            time.sleep(0.003)
            phase.enter()
            clocks.end("GET", "/bikes/7")

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    sums = told(tally, ledger)
    assert {name: row.jobs for name, row in sums.routes.items()} == {"GET /bikes/*": 1, "GET /bikes/<id>": 2}
    row = sums.routes["GET /bikes/<id>"]
    assert row.cpu_ns >= 2 * 2 * MS and row.cpu_jobs == 2
    assert sums.blocked_ns >= 3 * 3 * MS and sums.waits == 3


def test_the_kernel_says_who_stands_in_a_call_that_no_probe_knows() -> None:
    reads, writes = os.pipe()
    known: list[int] = []
    locked = threading.Lock()
    locked.acquire()

    def read() -> None:
        known.append(threading.get_native_id())
        os.read(reads, 1)
        locked.acquire()

    thread = threading.Thread(target=read)
    thread.start()
    until_s = time.monotonic() + 10
    while not (known and stands_in_call(known[0])) and time.monotonic() < until_s:
        time.sleep(0.001)
    assert stands_in_call(known[0])
    os.write(writes, b"x")
    while stands_in_call(known[0]) and time.monotonic() < until_s:
        time.sleep(0.001)
    assert not stands_in_call(known[0]), "it waits for another thread"
    locked.release()
    thread.join()
    os.close(reads)
    os.close(writes)


async def asked(clocks: LoopClocks, path: str) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    await clocks({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send)
    return sent


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/tasks":
        await asyncio.gather(asyncio.sleep(0.005), asyncio.sleep(0.005), task())
    elif scope["path"] == "/threads":
        await asyncio.to_thread(burn, 8)
    elif scope["path"] == "/raises":
        raise ValueError("mine")
    else:
        burn(4)
        await asyncio.sleep(0.02)
    await send({"type": "http.response.body", "body": b""})
    burn(20)  # nobody waits for this


async def task() -> None:
    burn(3)


def test_a_loop_tells_cpu_and_what_a_request_and_its_tasks_are_blocked(ledger: Ledger) -> None:
    seconds = itertools.count(1_000_000_000, 1_000_000_000)  # each look tells
    tally = Tally(ledger, lateness := Lateness(), clock=lambda: next(seconds))
    blocked: list[int] = []
    waits: list[int] = []

    async def main() -> None:
        clocks = LoopClocks(application, tally, lateness)
        clocks.begin()
        for path in ("/plain", "/tasks", "/threads"):
            assert [message["type"] for message in await asked(clocks, path)] == ["http.response.body"]
            blocked.append((sums := told(tally, ledger)).blocked_ns - sum(blocked))
            waits.append(sums.waits - sum(waits))
        with pytest.raises(ValueError, match="mine"):
            await asked(clocks, "/raises")

    asyncio.run(main())
    rows = told(tally, ledger).routes
    plain, tasks, threads = (rows[f"GET /{name}"] for name in ("plain", "tasks", "threads"))
    assert 4 * MS <= plain.cpu_ns < 20 * MS and blocked[0] >= 9 * MS and waits[0] == 1
    assert 3 * MS <= tasks.cpu_ns < 20 * MS and blocked[1] > 0
    assert 8 * MS <= threads.cpu_ns < 20 * MS
    assert rows["GET /raises"].jobs == 1
    assert all(row.cpu_jobs == row.jobs == 1 for row in rows.values())
