"""Permits on real threads: who holds one, who waits, and that each comes back."""

from __future__ import annotations

import gc
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from tests.lanes.burners import burn, permits, teach, together, until

from greenlane import _native, probes
from greenlane.errors import DeadlineExceeded
from greenlane.lanes.permits import Permits, learned_rows

NOW = time.monotonic_ns
CORES = os.sched_getaffinity(0)


def all_returned(given: Permits) -> bool:
    """Whether nobody holds a permit and every one taken came back."""
    counters = given.counters()
    taken = counters["granted"] + counters["waited_granted"]
    return given.pressure() == (0, 0) and counters["released"] == taken


def computes(given: Permits, route: str, done: threading.Event) -> None:
    """One job that computes until `done`."""
    given.open(NOW(), 0, route)
    while not done.is_set():
        burn(1)
    given.close()


def heavy_job(given: Permits, cpu_ms: float = 6.0) -> None:
    """One job of the heavy route."""
    assert given.open(NOW(), 0, "GET /heavy")
    burn(cpu_ms)
    given.close()


@pytest.fixture
def heavy() -> Permits:
    """Permits that know GET /heavy."""
    given = permits()
    teach(given, "GET /heavy")
    return given


@pytest.fixture
def done() -> Iterator[threading.Event]:
    """Set when the test is over, however it ends: a thread that computed on would disturb all later tests."""
    given = threading.Event()
    yield given
    given.set()


def test_an_unknown_route_runs_free_until_learned() -> None:
    given = permits(learn_after=3)
    for _ in range(3):
        heavy_job(given)
    assert given.counters()["granted"] == 0
    heavy_job(given)
    assert given.counters()["granted"] == 1


def test_a_light_route_never_asks() -> None:
    given = permits()
    for _ in range(50):
        given.open(NOW(), 0, "GET /light")
        given.close()
    assert given.counters()["granted"] == given.counters()["waited"] == 0


def test_what_is_a_small_part_of_the_heavy_work_runs_free() -> None:
    # Half as long as everywhere: 2 ms is heavy, and 3 ms beside 25 is a small part.
    given = permits(heavy_ms=2.0)
    for _ in range(45):
        for route, cpu_ms in (("GET /page", 3.0), ("GET /report", 25.0)):
            given.open(NOW(), 0, route)
            burn(cpu_ms)
            given.close()
    assert {row.route: row.weight for row in learned_rows(given)} == {"GET /page": "light", "GET /report": "heavy"}


def test_heavy_phases_take_turns(heavy: Permits) -> None:
    together([lambda: heavy_job(heavy)] * 6)
    counters = heavy.counters()
    assert counters["waited_granted"] >= 1, counters
    assert all_returned(heavy)


def test_a_permit_is_given_back_before_blocking_and_the_next_phase_is_its_own(heavy: Permits) -> None:
    heavy.open(NOW(), 0, "GET /heavy")
    assert heavy.pressure() == (1, 0)
    heavy.leave(0)
    assert heavy.pressure() == (0, 0)
    heavy.enter()
    assert heavy.pressure() == (0, 0), "phase 1 is unknown, so it runs free"
    heavy.close()
    assert all_returned(heavy)


def test_only_the_outermost_leave_and_enter_count(heavy: Permits) -> None:
    heavy.open(NOW(), 0, "GET /heavy")
    phases = heavy.counters()["phases"]
    for _ in range(3):
        heavy.leave(0)
    for _ in range(3):
        heavy.enter()
    assert heavy.counters()["phases"] == phases + 1
    heavy.enter()
    heavy.close()
    assert all_returned(heavy)


def test_a_job_inside_a_job_belongs_to_it(heavy: Permits) -> None:
    assert heavy.open(NOW(), 0, "GET /heavy")
    assert not heavy.open(NOW(), 0, "GET /heavy")
    assert heavy.pressure() == (1, 0)
    heavy.close()
    assert heavy.close() is None
    assert all_returned(heavy)


def test_the_route_may_become_known_later(heavy: Permits) -> None:
    heavy.open(NOW(), 0, None)
    assert heavy.pressure() == (0, 0)
    heavy.name("GET /heavy")
    assert heavy.pressure() == (1, 0)
    heavy.close()


def test_a_thread_that_dies_with_a_permit_gives_it_back(heavy: Permits) -> None:
    thread = threading.Thread(target=lambda: heavy.open(NOW(), 0, "GET /heavy"))
    thread.start()
    thread.join()
    # join() returns when Python's part of the thread has ended; its thread-locals go a moment later.
    until(lambda: heavy.pressure() == (0, 0))
    assert all_returned(heavy)


def test_a_dropped_paused_job_ends(heavy: Permits) -> None:
    heavy.open(NOW(), 0, "GET /heavy")
    paused = heavy.pause()
    assert not heavy.active()
    del paused
    gc.collect()
    assert all_returned(heavy)


def test_a_paused_job_that_is_dropped_leaves_its_threads_next_job_what_it_was_charged_with(
    heavy: Permits, done: threading.Event
) -> None:
    asked_for(heavy, "GET /light", 20)
    pressures = list[tuple[int, int]]()

    def surprise() -> None:
        heavy.open(NOW(), 0, "GET /light")
        paused = heavy.pause()
        heavy.open(NOW(), 0, "GET /light")
        while not done.is_set():
            burn(1)
        pressures.append(heavy.pressure())
        del paused
        gc.collect()
        pressures.append(heavy.pressure())
        heavy.close()

    thread = threading.Thread(target=surprise, daemon=True)
    thread.start()

    def looked_at() -> bool:
        asked_for(heavy, "GET /other", 1)
        return heavy.counters()["charged"] > 0

    until(looked_at)
    done.set()
    thread.join(10)
    assert pressures == [(1, 0), (1, 0)]
    assert all_returned(heavy)


def test_a_paused_job_goes_on_on_another_thread(heavy: Permits) -> None:
    heavy.open(NOW(), 0, "GET /heavy")
    paused = heavy.pause()
    assert paused is not None
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.extend([paused.resume(), heavy.active(), heavy.close() is not None]))
    thread.start()
    thread.join()
    assert seen == [True, True, True]
    assert not paused.resume(), "it has been resumed already"


@pytest.fixture
def locks_seen() -> Iterator[None]:
    """Who holds a lock is known."""
    probes.install()
    yield
    probes.uninstall()


@pytest.mark.usefixtures("locks_seen")
def test_a_thread_that_holds_a_lock_never_queues(heavy: Permits) -> None:
    lock = threading.Lock()
    heavy.open(NOW(), 0, "GET /heavy")

    def other() -> None:
        heavy.open(NOW(), 0, None)
        with lock:
            heavy.name("GET /heavy")
            heavy.close()

    together([other])
    assert heavy.counters()["skipped_lock"] == 1
    assert heavy.counters()["waited"] == 0
    heavy.close()


@pytest.mark.usefixtures("locks_seen")
def test_a_lock_that_wakes_a_pool_s_thread_is_not_held_by_its_jobs(heavy: Permits) -> None:
    wakes = threading.Lock()
    wakes.acquire()
    heavy.open(NOW(), 0, "GET /heavy")

    def seat() -> None:
        heavy.open(NOW(), 0, "GET /light")
        heavy.close()
        wakes.acquire()  # until there is work
        heavy_job(heavy)

    waiting = threading.Thread(target=seat)
    waiting.start()
    wakes.release()
    until(lambda: heavy.pressure()[1] or not waiting.is_alive())
    heavy.close()
    waiting.join()
    assert heavy.counters()["skipped_lock"] == 0


@pytest.mark.usefixtures("locks_seen")
def test_asking_for_a_lock_without_waiting_ends_no_phase(heavy: Permits) -> None:
    lock, taken = threading.Lock(), threading.Lock()
    heavy.open(NOW(), 0, "GET /heavy")
    taken.acquire()
    assert _native.locks_held() == 1
    phases = heavy.counters()["phases"]
    assert lock.acquire(False) and not taken.acquire(blocking=False)
    assert not threading.Condition(lock).notify()  # asks by acquire(False) whether its lock is held
    assert heavy.counters()["phases"] == phases and heavy.pressure() == (1, 0)
    lock.release()
    taken.release()
    heavy.close()
    assert _native.locks_held() == 0


def test_a_route_pays_what_it_waits_and_gains_what_others_wait_for_it() -> None:
    given = permits(share_ms=60_000)
    for route in ("GET /first", "GET /second"):
        teach(given, route, runs=3)
    given.open(NOW(), 0, "GET /first")

    def second() -> None:
        given.open(NOW(), 0, "GET /second")
        given.close()

    thread = threading.Thread(target=second)
    thread.start()
    until(lambda: given.pressure()[1] == 1)
    burn(20)
    given.close()
    thread.join(10)
    first, other = given.turns()["GET /first"], given.turns()["GET /second"]
    assert [first[name] for name in ("turns", "waited", "waited_ns", "skipped", "express")] == [1, 0, 0, 0, 0]
    assert [other[name] for name in ("turns", "waited", "others_waited_ns")] == [1, 1, 0]
    # The wait is also that for the GIL after the grant, which is not the first one's doing.
    assert 0 < first["others_waited_ns"] <= other["waited_ns"]


def test_a_short_phase_goes_beside_a_long_holder_past_a_long_one_that_waits(done: threading.Event) -> None:
    given = permits(share_ms=60_000)
    for route, cpu_ms in (("GET /long", 40), ("GET /other", 40), ("GET /short", 6)):
        teach(given, route, cpu_ms=cpu_ms, runs=3)
    came_ns = NOW() - 1_000_000_000

    def job(arrival_ns: int, route: str, holds: bool) -> None:
        given.open(arrival_ns, 0, route)
        while holds and not done.is_set():
            burn(1)
        given.close()

    works = [(came_ns, "GET /long", True), (came_ns - 500_000_000, "GET /other", False), (came_ns, "GET /short", False)]
    threads = [threading.Thread(target=job, args=work) for work in works]
    for thread, pressure in zip(threads, [(1, 0), (1, 1)], strict=False):
        thread.start()
        until(lambda pressure=pressure: given.pressure() == pressure)  # type: ignore[misc]
    threads[2].start()
    until(lambda: not threads[2].is_alive())
    assert threads[1].is_alive() and given.pressure() == (1, 1)
    given.set_mode("off", "GET /other")
    until(lambda: not threads[1].is_alive())
    done.set()
    threads[0].join(10)
    assert (given.turns()["GET /short"]["express"], given.turns()["GET /other"]["skipped"]) == (1, 1)
    assert all_returned(given)


def test_switching_one_route_lets_only_its_own_phases_go(done: threading.Event) -> None:
    given = permits(share_ms=60_000)
    teach(given, "GET /heavy")
    teach(given, "GET /other")

    def holding() -> None:
        given.open(NOW(), 0, "GET /heavy")
        while not done.is_set():
            burn(1)
        given.close()

    def other() -> None:
        given.open(NOW(), 0, "GET /other")
        given.close()

    threads = [threading.Thread(target=work) for work in (holding, lambda: heavy_job(given), other)]
    threads[0].start()
    until(lambda: given.pressure()[0] > 0)
    for thread in threads[1:]:
        thread.start()
    until(lambda: given.pressure()[1] == 2)
    given.set_mode("off", "GET /other")
    until(lambda: given.counters()["skipped_switched"] == 1)
    assert given.pressure()[1] <= 1
    done.set()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert given.pressure() == (0, 0)


def test_a_holder_that_stands_still_is_lent_on(heavy: Permits) -> None:
    heavy.open(NOW(), 0, "GET /heavy")
    together([lambda: heavy_job(heavy)])  # This thread sleeps in join, which no probe sees here.
    counters = heavy.counters()
    assert counters["lent_still"] == 1
    assert counters["waited_granted"] == 1
    heavy.close()
    assert all_returned(heavy)


def test_a_holder_that_runs_far_beyond_its_burst_admits_one_more() -> None:
    given = permits(share_ms=20)
    teach(given, "GET /heavy")

    def overrun() -> bool:
        done = threading.Event()

        def spinning() -> None:
            given.open(NOW(), 0, "GET /heavy")
            while not done.is_set():
                burn(1)
            given.close()

        spinner = threading.Thread(target=spinning)
        spinner.start()
        until(lambda: given.pressure()[0] > 0)
        heavy_job(given)  # It could never end if the spinner's permit were a lock.
        done.set()
        spinner.join()
        return given.counters()["lent_overrun"] >= 1

    # On a busy machine the kernel may put the holder aside for long enough to count as standing still.
    assert any(overrun() for _ in range(10)), given.counters()
    assert all_returned(given)


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL to release")
def test_a_holder_that_computes_without_the_gil_is_lent_on(heavy: Permits, done: threading.Event) -> None:
    block = bytes(2**25)

    def hashing() -> None:
        heavy.open(NOW(), 0, "GET /heavy")
        while not done.is_set():
            hashlib.sha256(block).digest()
        heavy.close()

    thread = threading.Thread(target=hashing)
    thread.start()
    until(lambda: heavy.pressure()[0] > 0)

    def lent() -> bool:  # The main thread waits for 250 ms at most, in which a busy machine may not run the holder.
        heavy_job(heavy)
        counters = heavy.counters()
        return counters["lent_released"] + counters["lent_still"] + counters["lent_overrun"] >= 1

    until(lent)
    done.set()
    thread.join()
    assert all_returned(heavy)


@pytest.mark.slow
@pytest.mark.measured
@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL to release")
def test_a_holder_without_the_gil_is_lent_on_while_other_threads_have_it(done: threading.Event) -> None:
    given = permits(share_ms=60_000, wait_max_ms=200)
    teach(given, "GET /heavy")
    block = bytes(2**25)

    def hashing() -> None:
        given.open(NOW(), 0, "GET /heavy")
        while not done.is_set():
            hashlib.sha256(block).digest()
        given.close()

    def computing() -> None:
        while not done.is_set():
            burn(1)

    threads = [threading.Thread(target=work) for work in (hashing, computing)]
    for thread in threads:
        thread.start()
    until(lambda: given.pressure()[0] > 0)

    def lent() -> bool:  # A busy machine may not run the holder for long enough.
        heavy_job(given)
        return given.counters()["lent_released"] >= 1

    until(lent)
    done.set()
    for thread in threads:
        thread.join()
    assert all_returned(given)


def test_a_wait_is_bounded(done: threading.Event) -> None:
    given = permits(wait_max_ms=20, share_ms=60_000)
    teach(given, "GET /heavy")

    def holding() -> None:
        given.open(NOW(), 0, "GET /heavy")
        while not done.is_set():
            burn(1)
        given.close()

    holder = threading.Thread(target=holding)
    holder.start()
    until(lambda: given.pressure()[0] > 0)
    heavy_job(given)
    done.set()
    holder.join()
    assert given.counters()["skipped_timeout"] == 1
    assert all_returned(given)


def test_switching_off_lets_everybody_go(done: threading.Event) -> None:
    heavy = permits(share_ms=60_000)
    teach(heavy, "GET /heavy")

    def holding() -> None:
        heavy.open(NOW(), 0, "GET /heavy")
        while not done.is_set():
            burn(1)
        heavy.close()

    holder = threading.Thread(target=holding)
    holder.start()
    until(lambda: heavy.pressure()[0] > 0)
    waiters = [threading.Thread(target=heavy_job, args=(heavy,)) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    # On a busy machine the holder may lose its core for so long that one of them is let in already.
    until(lambda: heavy.pressure()[1] + heavy.counters()["waited_granted"] == 3)
    heavy.set_mode("off")
    for waiter in waiters:
        waiter.join(10)
    done.set()
    holder.join(10)
    assert not any(thread.is_alive() for thread in [holder, *waiters])
    assert heavy.counters()["skipped_switched"] + heavy.counters()["waited_granted"] == 3
    assert heavy.pressure() == (0, 0)


def test_off_opens_no_job_and_observe_waits_for_nobody(heavy: Permits) -> None:
    heavy.set_mode("off")
    assert not heavy.open(NOW(), 0, "GET /heavy")
    heavy.set_mode("observe")
    waited = heavy.counters()["waited"]
    together([lambda: heavy_job(heavy, 8)] * 4)
    assert heavy.counters()["waited"] == waited
    assert heavy.counters()["would_wait"] >= 1


def test_one_route_may_have_a_mode_of_its_own(heavy: Permits) -> None:
    heavy.set_mode("off", "GET /heavy")
    granted = heavy.counters()["granted"]
    heavy_job(heavy)
    assert heavy.counters()["granted"] == granted
    assert (heavy.mode(), heavy.mode("GET /heavy")) == ("on", "off")
    heavy.set_mode("inherit", "GET /heavy")
    heavy_job(heavy)
    assert heavy.counters()["granted"] == granted + 1


def test_pins_win_over_what_is_learned(heavy: Permits) -> None:
    heavy.pin("GET /heavy", "light")
    heavy.open(NOW(), 0, "GET /heavy")
    assert heavy.pressure() == (0, 0)
    heavy.close()
    heavy.pin("GET /new", "heavy")
    heavy.open(NOW(), 0, "GET /new")
    assert heavy.pressure() == (1, 0)
    heavy.close()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="the interval needs a GIL")
def test_the_switch_interval_is_short_only_while_a_permit_is_held(heavy: Permits) -> None:
    before = sys.getswitchinterval()
    heavy.open(NOW(), 0, "GET /heavy")
    assert sys.getswitchinterval() == pytest.approx(0.001)
    heavy.leave(0)
    assert sys.getswitchinterval() == before
    heavy.enter()
    heavy.close()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="the interval needs a GIL")
def test_the_switch_interval_lingers_for_the_next_holder_if_told_to(heavy: Permits) -> None:
    before = sys.getswitchinterval()
    heavy.open(NOW(), 0, "GET /heavy")
    heavy.linger(True)
    heavy.close()
    assert sys.getswitchinterval() == pytest.approx(0.001)
    heavy.open(NOW(), 0, "GET /heavy")
    heavy.linger(False)
    assert sys.getswitchinterval() == pytest.approx(0.001)
    heavy.linger(True)
    heavy.close()
    heavy.linger(False)
    assert sys.getswitchinterval() == before


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="the interval needs a GIL")
def test_an_interval_that_somebody_else_sets_meanwhile_stays(heavy: Permits) -> None:
    before = sys.getswitchinterval()
    heavy.open(NOW(), 0, "GET /heavy")
    try:
        sys.setswitchinterval(0.002)
        heavy.close()
        assert sys.getswitchinterval() == pytest.approx(0.002)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="the interval needs a GIL")
def test_where_many_want_the_gil_the_interval_is_longer_while_the_permit_is_held(heavy: Permits) -> None:
    before = 0.005  # A thread that died with a permit may have left it short: see above.
    sys.setswitchinterval(before)
    found: list[float] = []
    held = threading.Event()
    give_up = time.monotonic() + 10

    def holds() -> None:
        heavy.open(NOW(), 0, "GET /heavy")
        assert sys.getswitchinterval() == pytest.approx(0.001)
        held.set()
        while not found and time.monotonic() < give_up:
            burn(1)
        heavy.close()

    def computes() -> None:
        held.wait(10)
        heavy.open(NOW(), 0, "GET /light")
        while not found and time.monotonic() < give_up:
            burn(1)
            heavy.leave(0)
            heavy.enter()
            if sys.getswitchinterval() < before and sys.getswitchinterval() > 0.001:
                found.append(sys.getswitchinterval())
        heavy.close()

    together([holds, *[computes] * 24])
    assert found
    assert sys.getswitchinterval() == before


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="the interval needs a GIL")
def test_two_permits_of_a_process_leave_the_interval_as_they_found_it(heavy: Permits) -> None:
    before = 0.005
    sys.setswitchinterval(before)
    other = permits(interval_ms=2.0)
    teach(other, "GET /heavy")
    held, go = threading.Event(), threading.Event()

    def holds() -> None:
        heavy.open(NOW(), 0, "GET /heavy")
        held.set()
        go.wait(10)
        heavy.close()

    other.open(NOW(), 0, "GET /heavy")
    assert sys.getswitchinterval() == pytest.approx(0.002)
    second = threading.Thread(target=holds)
    second.start()
    assert held.wait(10)
    assert heavy.pressure() == (1, 0)
    assert sys.getswitchinterval() == pytest.approx(0.002)
    other.close()
    go.set()
    second.join(10)
    assert sys.getswitchinterval() == before


def test_light_jobs_change_no_interval() -> None:
    given = permits()
    for _ in range(20):
        given.open(NOW(), 0, "GET /light")
        given.leave(0)
        given.enter()
        given.close()
    assert given.counters()["interval_changes"] == 0


def asked_for(given: Permits, route: str, times: int, cpu_ms: float = 0) -> None:
    for _ in range(times):
        given.open(NOW(), 0, route)
        burn(cpu_ms)
        given.close()


def test_routes_beyond_the_cap_share_one_row_and_run_free() -> None:
    given = permits(max_routes=3)
    for number in range(3):
        asked_for(given, f"GET /{number}", 8)
    for number in range(10):
        asked_for(given, f"GET /other/{number}", 1, cpu_ms=6)
    assert {row.route for row in learned_rows(given)} == {"GET /0", "GET /1", "GET /2", "(other)"}
    assert given.counters()["routes_refused"] == 10
    assert given.counters()["granted"] == given.counters()["waited"] == 0


def test_a_scanner_keeps_no_route_from_being_learned() -> None:
    given = permits(max_routes=16)
    asked_for(given, "GET /known", 8)
    for number in range(700):
        asked_for(given, f"GET /wp-{number}.php", 1)
    teach(given, "GET /heavy")
    heavy_job(given)
    assert given.counters()["routes_refused"] == 0
    assert given.counters()["granted"] >= 1
    assert "GET /known" in {row.route for row in learned_rows(given)}


def test_a_phase_believed_light_that_computes_for_long_counts_as_a_holder(
    heavy: Permits, done: threading.Event
) -> None:
    asked_for(heavy, "GET /light", 20)

    def surprise() -> None:
        heavy.open(NOW(), 0, "GET /light")
        while not done.is_set():
            burn(1)
        heavy.close()

    thread = threading.Thread(target=surprise)
    thread.start()

    def charged() -> bool:
        heavy_job(heavy)
        return heavy.counters()["charged"] > 0

    until(charged)
    assert heavy.pressure()[0] >= 1, "it holds what it never asked for"
    done.set()
    thread.join()
    assert all_returned(heavy)


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL to switch")
def test_what_turns_out_heavy_where_nobody_asks_shortens_the_interval(done: threading.Event) -> None:
    given, own_s = permits(), sys.getswitchinterval()
    asked_for(given, "GET /light", 20)

    thread = threading.Thread(target=computes, args=(given, "GET /light", done), daemon=True)
    thread.start()

    def shortened() -> bool:
        asked_for(given, "GET /other", 1)
        return sys.getswitchinterval() < own_s

    until(shortened)
    assert given.counters()["charged"] == 1 and given.pressure() == (1, 0)
    done.set()
    thread.join()
    assert (sys.getswitchinterval(), given.pressure()) == (own_s, (0, 0))


@pytest.mark.usefixtures("locks_seen")
def test_a_phase_that_computes_for_long_under_a_lock_counts_as_a_holder(heavy: Permits, done: threading.Event) -> None:
    lock = threading.Lock()

    def under_a_lock() -> None:
        heavy.open(NOW(), 0, None)
        with lock:
            heavy.name("GET /heavy")
            while not done.is_set():
                burn(1)
        heavy.close()

    thread = threading.Thread(target=under_a_lock, daemon=True)
    thread.start()

    def charged() -> bool:
        asked_for(heavy, "GET /other", 1)
        return heavy.counters()["charged"] == 1

    until(charged)
    assert heavy.pressure() == (1, 0) and heavy.counters()["skipped_lock"] == 1
    done.set()
    thread.join()
    assert heavy.pressure() == (0, 0)


def test_who_becomes_late_in_the_queue_lets_those_in_time_go_first(done: threading.Event) -> None:
    given = permits(share_ms=60_000)
    teach(given, "GET /heavy", runs=3)
    order: list[str] = []

    def waiting(name: str, arrival_ns: int, due_ns: int) -> None:
        given.open(arrival_ns, due_ns, "GET /heavy")
        order.append(name)
        given.close()

    came_ns = NOW()
    jobs = [("late", came_ns, came_ns + 50_000_000), ("in time", came_ns + 1_000_000, 0)]
    threads = [
        threading.Thread(target=computes, args=(given, "GET /heavy", done), daemon=True),
        *(threading.Thread(target=waiting, args=one) for one in jobs),
    ]
    for thread, pressure in zip(threads, [(1, 0), (1, 1), (1, 2)], strict=True):
        thread.start()
        until(lambda pressure=pressure: given.pressure() == pressure)  # type: ignore[misc]
    time.sleep(max(0.0, (came_ns + 100_000_000 - NOW()) / 1e9))
    done.set()
    for thread in threads:
        thread.join(10)
    assert order == ["in time", "late"]
    assert all_returned(given)


@pytest.mark.slow
@pytest.mark.measured
@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL to release")
def test_a_holder_that_hashed_and_needs_the_gil_after_all_counts_again(done: threading.Event) -> None:
    given = permits(share_ms=60_000)
    teach(given, "GET /heavy")
    block, hashed = bytes(2**25), threading.Event()

    def hashes_then_computes() -> None:
        given.open(NOW(), 0, "GET /heavy")
        while not (hashed.is_set() or done.is_set()):
            hashlib.sha256(block).digest()
        while not done.is_set():
            burn(1)
        given.close()

    def other() -> None:
        while not done.is_set():
            heavy_job(given, 20)

    threads = [threading.Thread(target=work, daemon=True) for work in (hashes_then_computes, other, other)]
    threads[0].start()
    until(lambda: given.pressure()[0] == 1)
    for thread in threads[1:]:
        thread.start()
    until(lambda: given.counters()["lent_released"] + given.counters()["lent_still"] >= 1)
    hashed.set()
    until(lambda: given.pressure() == (1, 2))
    done.set()
    for thread in threads:
        thread.join(10)
    assert all_returned(given)


def test_what_its_owner_calls_light_is_never_charged(heavy: Permits, done: threading.Event) -> None:
    heavy.pin("GET /light", "light")

    def computing() -> None:
        heavy.open(NOW(), 0, "GET /light")
        while not done.is_set():
            burn(1)
        heavy.close()

    thread = threading.Thread(target=computing)
    thread.start()
    for _ in range(8):
        heavy_job(heavy)
    done.set()
    thread.join()
    assert heavy.counters()["charged"] == 0


def test_a_holder_that_stood_still_and_computes_again_counts_again(done: threading.Event) -> None:
    given = permits(share_ms=60_000)
    teach(given, "GET /heavy")
    awake = threading.Event()

    def sleeper() -> None:
        given.open(NOW(), 0, "GET /heavy")
        awake.wait(10)  # No probe sees it here: it stands still.
        while not done.is_set():
            burn(1)
        given.close()

    def second() -> None:
        given.open(NOW(), 0, "GET /heavy")
        while not done.is_set():
            burn(1)
        given.close()

    threads = [threading.Thread(target=work) for work in (sleeper, second, lambda: heavy_job(given))]
    threads[0].start()
    until(lambda: given.pressure()[0] == 1)
    threads[1].start()
    until(lambda: given.counters()["lent_still"] == 1 and given.pressure() == (1, 0))
    awake.set()
    threads[2].start()
    until(lambda: given.pressure() == (2, 1))
    done.set()
    for thread in threads:
        thread.join(10)
    assert all_returned(given)


_THROTTLED = """
import threading
from tests.lanes.burners import burn, permits, teach, until
given = permits(share_ms=60_000)
teach(given, "GET /heavy")
done = threading.Event()
def holding():
    given.open(0, 0, "GET /heavy")
    while not done.is_set():
        burn(1)
    given.close()
def waiting():
    given.open(0, 0, "GET /heavy")
    given.close()
threads = [threading.Thread(target=work, daemon=True) for work in (holding, waiting)]
threads[0].start()
until(lambda: given.pressure()[0] == 1)
threads[1].start()
until(lambda: given.pressure()[1] == 1)
print("ready", flush=True)
input()
print(given.counters()["lent_still"], flush=True)
done.set()
"""


def test_a_process_that_is_throttled_does_not_stand_still() -> None:
    def lent() -> int:
        command = [sys.executable, "-c", _THROTTLED]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environ) as child:
            assert child.stdin and child.stdout
            if child.stdout.readline() != "ready\n":
                return 1
            for _ in range(10):
                child.send_signal(signal.SIGSTOP)
                time.sleep(0.02)
                child.send_signal(signal.SIGCONT)
                time.sleep(0.01)
            child.stdin.write("\n")
            child.stdin.flush()
            return int(child.stdout.readline())

    assert lent() == 0


def test_a_late_job_goes_last(done: threading.Event) -> None:
    given = permits(share_ms=60_000)
    teach(given, "GET /heavy")
    order = []

    def job(name: str, deadline_ns: int) -> None:
        given.open(NOW(), deadline_ns, "GET /heavy")
        order.append(name)
        given.close()

    threads = [threading.Thread(target=holding_until, args=(given, done))]
    threads[0].start()
    until(lambda: given.pressure()[0] == 1)
    for waiting, (name, deadline_ns) in enumerate([("late", NOW()), ("in time", 0)], start=1):
        threads.append(threading.Thread(target=job, args=(name, deadline_ns)))
        threads[-1].start()
        until(lambda waiting=waiting: given.pressure()[1] == waiting)
    done.set()
    for thread in threads:
        thread.join(10)
    assert order == ["in time", "late"]


def holding_until(given: Permits, stop: threading.Event) -> None:
    """Hold a permit and compute."""
    given.open(NOW(), 0, "GET /heavy")
    while not stop.is_set():
        burn(1)
    given.close()


def test_a_holder_that_computes_is_not_lent_however_busy_the_machine_is(done: threading.Event) -> None:
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(CORES))]
    given = permits(share_ms=60_000)
    teach(given, "GET /heavy")
    threads = [threading.Thread(target=work) for work in (lambda: holding_until(given, done), lambda: heavy_job(given))]
    try:
        threads[0].start()
        until(lambda: given.pressure()[0] == 1)
        threads[1].start()
        until(lambda: given.pressure()[1] == 1)
        for _ in range(500):  # Somebody else asks for the GIL and gives it back immediately.
            time.sleep(0.001)
        assert given.pressure() == (1, 1), given.counters()
    finally:
        for one in spinning:
            one.kill()
            one.wait()
        done.set()
    for thread in threads:
        thread.join(10)
    assert all_returned(given)


def test_a_short_phase_is_let_in_beside_a_long_holder(done: threading.Event) -> None:
    given = permits(share_ms=60_000)
    teach(given, "GET /long", cpu_ms=40)
    teach(given, "GET /short", cpu_ms=6)

    def holding() -> None:
        given.open(NOW(), 0, "GET /long")
        while not done.is_set():
            burn(1)
        given.close()

    holder = threading.Thread(target=holding)
    holder.start()
    until(lambda: given.pressure()[0] == 1)
    given.open(NOW(), 0, "GET /short")
    assert given.pressure() == (2, 0)
    given.close()
    done.set()
    holder.join()
    assert all_returned(given)


def test_phases_beyond_the_cap_share_the_last() -> None:
    given = permits(max_phases=4)
    given.open(NOW(), 0, "GET /many")
    places = [compile("given.leave(0)", f"place_{number}.py", "exec") for number in range(20)]
    for place in places:
        exec(place)
        given.enter()
    given.close()
    assert {row.phase for row in learned_rows(given)} == {0, 1, 2, 3}


def test_a_phase_is_known_by_where_it_begins_however_many_calls_came_before() -> None:
    given = permits()
    for rows in (1, 30, 4, 17, 9):
        given.open(NOW(), 0, "GET /rows")
        for _ in range(rows):
            given.leave(0)
            given.enter()
        given.leave(0)
        given.enter()
        burn(6)
        given.close()
    found = [(row.samples, row.weight) for row in learned_rows(given)]
    assert found == [(5, "light"), (61, "light"), (5, "heavy")]


def test_a_late_job_is_counted_with_its_late_cpu() -> None:
    given = permits()
    given.open(NOW(), NOW() - 1, "GET /late")
    assert given.remaining_ms() == 0
    burn(3)
    totals = given.close()
    assert totals is not None and totals[2] > 0
    assert given.counters()["jobs_late"] == 1


def test_blocking_calls_of_a_late_job_raise_only_where_asked_to() -> None:
    polite = permits()
    polite.open(NOW(), NOW() - 1, "GET /late")
    polite.leave(0)
    polite.enter()
    polite.close()
    strict = permits(deadline_cancel=True)
    strict.open(NOW(), NOW() - 1, "GET /late")
    with pytest.raises(DeadlineExceeded):
        strict.leave(0)
    strict.leave(5)  # A lock's acquire never raises.
    strict.enter()
    assert strict.close() is not None


def test_more_permits_run_more_at_once(heavy: Permits) -> None:
    given = permits(permits=2)
    teach(given, "GET /heavy")
    given.open(NOW(), 0, "GET /heavy")
    seen: list[tuple[int, int]] = []

    def other() -> None:
        given.open(NOW(), 0, "GET /heavy")
        seen.append(given.pressure())
        given.close()

    together([other])
    assert seen == [(2, 0)]
    given.close()


def test_an_import_that_switches_the_gil_on_leaves_one_permit(monkeypatch: pytest.MonkeyPatch) -> None:
    enabled: list[bool] = []
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: bool(enabled), raising=False)
    monkeypatch.setattr("greenlane.policy.permits.usable_cores", lambda: 3)
    given = permits(permits=0, share_ms=60_000)
    teach(given, "GET /heavy")

    def holding(stop: threading.Event) -> None:
        given.open(NOW(), 0, "GET /heavy")
        while not stop.is_set():
            burn(1)
        given.close()

    def many_hold(count: int, pressure: tuple[int, int]) -> None:
        stop = threading.Event()
        threads = [threading.Thread(target=holding, args=(stop,)) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: given.pressure() == pressure)
        finally:
            stop.set()
            for thread in threads:
                thread.join(10)

    many_hold(3, (2, 1))
    enabled.append(True)
    many_hold(3, (2, 1))  # who waits sees it
    many_hold(2, (1, 1))
    assert all_returned(given)
