"""Threads that end with their job open: the permit comes back without them."""

import _thread
import ctypes
import sys
import threading
import time

import pytest
from tests.hazards import scenario
from tests.hazards.scenario import HEAVY, Flag, Threads, burn, environ, job, spin_until

from greenlane import phase


def open_only(running) -> None:
    running.open(environ("/heavy/left-open"), time.monotonic_ns())
    phase.name(HEAVY)
    burn(1)


def test_a_thread_that_ends_without_close_gives_the_permit_back(running):
    threads = Threads()
    threads.start(lambda: open_only(running))
    threads.join()
    scenario.settled(running)


def test_others_wait_for_a_thread_that_ends_without_close_and_go_on(running):
    def serve() -> str:
        with job(running):
            burn(1)
            return "served"

    dying, living = Threads(), Threads()
    for _ in range(6):
        dying.start(lambda: open_only(running))
        living.start(serve)
    dying.join()
    assert living.join() == ["served"] * 6


def test_a_thread_that_dies_inside_a_blocking_call_of_a_job(running):
    """SystemExit out of a probe's call: `leave` without a job's close."""

    class Stop(Exception):
        pass

    def one() -> str:
        open_only(running)
        try:
            phase.leave(phase.Kind.SOCKET)
            raise Stop
        except Stop:
            return "ended between leave and enter"

    threads = Threads()
    for _ in range(3):
        threads.start(one)
    assert threads.join() == ["ended between leave and enter"] * 3


@pytest.mark.parametrize("leave", [_thread.exit, lambda: (_ for _ in ()).throw(SystemExit)])
def test_a_thread_that_exits_inside_its_job(running, leave):
    def one() -> None:
        open_only(running)
        leave()

    raw = [_thread.start_new_thread(one, ()) for _ in range(3)]
    assert len(raw) == 3
    scenario.until(lambda: not set(raw) & set(sys._current_frames()))
    scenario.settled(running)


def test_an_exception_thrown_into_a_waiting_thread(running):
    """PyThreadState_SetAsyncExc, as time-out libraries use it, while the thread waits for the permit."""
    ready, go_on, started = Flag(), [], []

    class Killed(BaseException):
        pass

    def hold() -> None:
        with job(running):
            ready.set()
            spin_until(lambda: go_on)

    def wait() -> str:
        started.append(threading.get_ident())
        try:
            with job(running):
                while True:
                    burn(1)
                    time.sleep(0)
        except Killed:
            return "killed"

    holder, waiter = Threads(), Threads()
    holder.start(hold)
    ready.wait(10)
    waiter.start(wait)
    scenario.until(lambda: started)
    if running.mode() == "on":
        scenario.until(lambda: running.pressure()[1] or running.counters()["skipped_timeout"])
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(started[0]), ctypes.py_object(Killed))
    assert waiter.join() == ["killed"]
    go_on.append(True)
    holder.join()


def test_close_twice_and_close_without_open_are_harmless(running):
    def one() -> str:
        running.close()
        with job(running):
            burn(1)
            running.close()
            burn(1)
            time.sleep(0)
        running.close()
        with job(running):
            burn(1)
        return "well"

    threads = Threads()
    for _ in range(4):
        threads.start(one)
    assert threads.join() == ["well"] * 4


def test_unbalanced_phase_calls_are_harmless(running):
    """A driver probe that loses one half of a pair must not take the permit from everybody, nor raise."""

    def too_many_leaves() -> None:
        with job(running):
            for _ in range(3):
                phase.leave(phase.Kind.DRIVER)
            phase.enter()
            burn(1)

    def too_many_enters() -> None:
        with job(running):
            for _ in range(3):
                phase.enter()
            burn(1)

    threads = Threads()
    for function in [too_many_leaves, too_many_enters] * 3:
        threads.start(function)
    threads.join()
    scenario.settled(running)
    assert running.pressure() == (0, 0)


def test_phase_calls_on_a_thread_without_a_job_do_nothing(running):
    before = running.counters()
    phase.leave(phase.Kind.SLEEP)
    phase.enter()
    phase.name(HEAVY)
    assert not phase.active()
    after = running.counters()
    assert after["granted"] == before["granted"]
