"""The mode is switched while jobs hold and wait: nobody stays waiting, no permit is lost."""

import threading
import time

import pytest
from tests.hazards import scenario
from tests.hazards.scenario import HEAVY, Flag, Threads, burn, job, spin_until


@pytest.mark.parametrize("to", ["off", "observe"])
def test_switching_away_from_on_lets_every_waiter_go(process, to):
    scenario.new_chapter()
    process.set_mode("on")
    ready, go_on = Flag(), []

    def hold() -> None:
        with job(process):
            ready.set()
            spin_until(lambda: go_on)

    def wait() -> str:
        with job(process):
            return "went"

    holder, waiters = Threads(), Threads()
    holder.start(hold)
    ready.wait(10)
    before = process.counters()["waited"]
    for _ in range(4):
        waiters.start(wait)
    # Where cores are short all of them may have waited, and have been let in, before this thread looks.
    scenario.until(lambda: process.pressure()[1] or process.counters()["waited"] > before)
    process.set_mode(to)
    assert waiters.join() == ["went"] * 4  # while the holder still computes
    process.set_mode("on")
    go_on.append(True)
    holder.join()
    scenario.settled(process)
    process.set_mode("off")


def test_switching_on_and_off_under_load_loses_nothing(process):
    stop: list[bool] = []
    served = [0] * 5
    lock = threading.Lock()

    def one(who: int):
        def run() -> None:
            while not stop:
                with job(process, HEAVY if served[who] % 2 else scenario.LIGHT):
                    burn(0.3)
                    time.sleep(0)
                    with lock:
                        burn(0.1)
                    served[who] += 1

        return run

    threads = Threads()
    for who in range(5):
        threads.start(one(who))
    for turn in range(60):
        process.set_mode(("on", "off", "observe")[turn % 3])
        time.sleep(0.005)
    try:
        scenario.until(lambda: all(served))  # a thread may get no core meanwhile
    finally:
        stop.append(True)
    threads.join()
    scenario.settled(process)
    process.set_mode("on")
    assert scenario.run_jobs(process, [lambda: burn(1) or "served"] * 4) == ["served"] * 4
    scenario.settled(process)
    process.set_mode("off")


def test_a_route_switched_alone_runs_free_beside_the_others(process):
    """Per-route mode: its jobs do not wait although the holder never ends; then the route follows the process again."""
    scenario.new_chapter()
    process.set_mode("on")
    free = "GET /heavy/free"
    ready, go_on = Flag(), []

    def hold() -> None:
        with job(process):
            ready.set()
            spin_until(lambda: go_on)

    def one() -> str:
        with job(process, free):
            burn(1)
            time.sleep(0)
            return "went"

    process.set_mode("off", free)
    holder, others = Threads(), Threads()
    holder.start(hold)
    ready.wait(10)
    for _ in range(4):
        others.start(one)
    assert others.join() == ["went"] * 4
    process.set_mode("on", free)
    go_on.append(True)
    holder.join()
    scenario.settled(process)
    process.set_mode("off")


def test_a_mode_switched_inside_a_job(running):
    def one() -> str:
        with job(running):
            burn(1)
            running.set_mode("off")
            time.sleep(0)
            running.set_mode("on")
            time.sleep(0)
            burn(1)
            return "done"

    threads = Threads()
    for _ in range(4):
        threads.start(one)
    assert threads.join() == ["done"] * 4
