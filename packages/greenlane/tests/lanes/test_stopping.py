"""Phases over their allowance stand still at a bytecode boundary while others before them compute."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.hazards import scenario
from tests.hazards.scenario import Flag, Threads, job, until

from greenlane import _native
from greenlane.threads import stopping
from greenlane.wiring.process import Running

pytestmark = [
    pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is CPython 3.12's"),
    pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads compute side by side"),
    pytest.mark.timeout(60, method="thread"),
]

HOG = "GET /heavy/hog"
SHORT = "GET /heavy/short"


@pytest.fixture
def running() -> Iterator[Running]:
    """Greenlane, which stops who has used 2 ms; afterwards nothing is left of it."""
    given = scenario.start("on", preempt_ms=2.0)
    scenario.new_chapter()
    yield given
    scenario.settled(given)
    given.stop()
    assert all(sys.monitoring.get_tool(each) is None for each in (3, 4))  # type: ignore[attr-defined]


def spin(seconds_of_cpu: float) -> None:
    end = time.thread_time() + seconds_of_cpu
    while time.thread_time() < end:
        for _ in range(50):
            pass


class Hog:
    """A job that has computed for long when another comes: it is asked to stand still, and says what it did."""

    def __init__(self, running: Running, work: Callable[[Callable[[], bool]], Any]) -> None:
        self.begun, self.enough, self.work, self.running = Flag(), Flag(), work, running

    def __call__(self) -> Any:
        with job(self.running, HOG):
            spin(0.005)
            self.begun.set()
            return self.work(lambda: not self.enough)


def short(running: Running, hog: Hog) -> bool:
    """A job that came later: whether it was through while the hog still wanted to compute."""
    hog.begun.wait()
    with job(running, SHORT):
        spin(0.001)
    through = not hog.enough
    hog.enough.set()
    return through


def computes(goes_on: Callable[[], bool], most_s: float = 3.0) -> int:
    """Compute until told to end, or for this much CPU."""
    end, rounds = time.thread_time() + most_s, 0
    while goes_on() and time.thread_time() < end:
        rounds += 1
    return rounds


def stopped_while(running: Running, work: Callable[[Callable[[], bool]], Any], shorts: int = 1) -> tuple[int, Any]:
    """How often the hog was stopped while shorts ran beside it, and what its work gave."""
    before, cpu_before_ns = running.counters()["stopped"], running.counters()["stop_cpu_ns"]
    hog = Hog(running, work)
    threads = Threads()
    threads.start(hog)
    for _ in range(shorts):
        threads.start(lambda: short(running, hog))
    results = threads.join()
    assert all(results[1:]), "the short ones came through while the hog computed"
    stops = running.counters()["stopped"] - before
    assert not stops or running.counters()["stop_cpu_ns"] > cpu_before_ns, "what a stop takes is counted"
    return stops, results[0]


def attacked(running: Running, work: Callable[[Callable[[], bool]], Any]) -> int:
    """Run the hog beside another that always wants to compute, and stop both at every boundary; how often that was."""
    scenario.switch(running, scenario.STOPPED)
    before = running.counters()["stopped"]

    def both(goes_on: Callable[[], bool]) -> None:
        spin(0.002)  # The other one is there.
        work(goes_on)
        hog.enough.set()

    hog = Hog(running, both)

    def other() -> None:
        with job(running, HOG):
            computes(lambda: not hog.enough, 10)

    threads = Threads()
    threads.start(other)
    threads.start(hog)
    threads.join()
    scenario.switch(running, "on")
    return running.counters()["stopped"] - before


def test_a_phase_over_its_allowance_stands_still_while_a_later_one_computes(running: Running) -> None:
    stopped, rounds = stopped_while(running, computes)
    assert stopped >= 1
    assert rounds > 0


def test_nobody_is_stopped_for_nobody(running: Running) -> None:
    with job(running, HOG):
        spin(0.03)
    assert running.counters()["stopped"] == 0


def test_who_stood_still_goes_on_with_its_locals_and_its_exceptions(running: Running) -> None:
    def work(goes_on: Callable[[], bool]) -> tuple[str, int]:
        kept = threading.local()
        kept.value = 5
        try:
            try:
                raise KeyError("first")
            except KeyError:
                computes(goes_on)
                raise
        except KeyError as error:
            return error.args[0], kept.value

    stopped, result = stopped_while(running, work)
    assert stopped >= 1
    assert result == ("first", 5)


def test_a_thread_that_holds_a_lock_is_not_stopped_until_it_lets_go(running: Running) -> None:
    lock = threading.Lock()
    held: list[int] = []

    def work(goes_on: Callable[[], bool]) -> None:
        before = running.counters()["stopped"]
        with lock:
            computes(goes_on, 0.1)
            held.append(running.counters()["stopped"] - before)
        computes(goes_on)

    stopped_while(running, work)
    assert held == [0]


def test_a_job_that_waits_for_a_lock_lets_all_go_and_stops_nobody_while_it_waits(running: Running) -> None:
    lock = threading.Lock()
    lock.acquire()  # outside of a job: nobody knows who holds it
    waits = Flag()
    seen: list[int] = []

    def waiter() -> None:
        with job(running, "GET /light/waiter"):
            waits.set()
            assert lock.acquire(timeout=10)
            lock.release()

    def work(goes_on: Callable[[], bool]) -> None:
        threads.start(waiter)
        waits.wait()
        time.sleep(0.01)
        before = running.counters()["stopped"]
        computes(goes_on, 0.1)
        seen.append(running.counters()["stopped"] - before)
        lock.release()

    threads = Threads()
    stopped_while_waiting = Hog(running, work)
    threads.start(stopped_while_waiting)
    threads.start(lambda: short(running, stopped_while_waiting))
    threads.join()
    assert seen == [0]


def test_who_stands_still_is_let_go_when_a_job_begins_to_wait_for_a_lock(running: Running) -> None:
    lock = threading.Lock()
    lock.acquire()
    hog = Hog(running, computes)
    let_go = Flag()

    def holder() -> None:
        """Comes later, goes first, and computes until the hog has been let go."""
        hog.begun.wait()
        with job(running, SHORT):
            computes(lambda: not let_go, 5)
        hog.enough.set()

    def waiter() -> None:
        until(lambda: running.counters()["stopped"] + running.pressure()[1] >= 1)
        time.sleep(0.05)
        with job(running, "GET /light/waiter"):
            lock.acquire(timeout=0.2)
        let_go.set()

    threads = Threads()
    for each in (hog, holder, waiter):
        threads.start(each)
    threads.join()
    assert running.counters()["stopped_let_go"] >= 1


def test_a_generator_and_a_finalizer_are_never_stopped_inside(running: Running) -> None:
    inside: list[int] = []

    def spun() -> None:
        before = running.counters()["stopped"]
        spin(0.03)
        inside.append(running.counters()["stopped"] - before)

    class Finalized:
        def __del__(self) -> None:
            spun()

    def generate() -> Iterator[int]:
        spun()
        yield 1

    class Weak:
        pass

    def work(goes_on: Callable[[], bool]) -> None:
        loop: list[Any] = [Finalized()]
        loop.append(loop)
        loop = []
        gc.collect()
        assert list(generate()) == [1]
        weak = Weak()
        weakref.finalize(weak, spun)
        del weak

    assert attacked(running, work) >= 2
    assert inside == [0, 0, 0]


def test_logging_and_imports_are_never_stopped_inside(running: Running, tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "slow_module_of_test_stopping.py").write_text("import builtins\nbuiltins.spun_while_importing()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    inside: list[int] = []

    def spun() -> None:
        before = running.counters()["stopped"]
        spin(0.03)
        inside.append(running.counters()["stopped"] - before)

    monkeypatch.setattr("builtins.spun_while_importing", spun, raising=False)

    class Slow(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            spun()
            return False

    logger = logging.getLogger("of test_stopping")
    logger.addFilter(Slow())

    def work(goes_on: Callable[[], bool]) -> None:
        logger.warning("something")
        import slow_module_of_test_stopping  # type: ignore[import-not-found] # noqa: F401

    assert attacked(running, work) >= 2
    assert inside == [0, 0]


def test_code_in_c_is_stopped_when_it_returns(running: Running) -> None:
    def work(goes_on: Callable[[], bool]) -> int:
        while goes_on():
            sum(range(1_000_000))  # some 15 ms
        return 1

    stopped, _ = stopped_while(running, work)
    assert stopped >= 1


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_who_stands_still_goes_on_when_the_mode_is_switched(running: Running, mode: str) -> None:
    hog = Hog(running, computes)
    switched = Flag()

    def holder() -> None:
        hog.begun.wait()
        with job(running, SHORT):
            computes(lambda: not switched, 8)
        hog.enough.set()

    threads = Threads()
    threads.start(hog)
    threads.start(holder)
    hog.begun.wait()
    until(lambda: running.pressure()[1] >= 1)  # first the holder waits, then the hog
    time.sleep(0.05)
    began = time.monotonic()
    running.set_mode(mode)
    switched.set()
    threads.join()
    assert time.monotonic() - began < 5
    assert running.pressure() == (0, 0)
    running.set_mode("on")
    assert stopped_while(running, computes)[0] >= 1, "on again, it stops again"


def test_the_allowance_is_switched_live(running: Running) -> None:
    assert running.set_preempt(0)
    assert sys.monitoring.get_tool(4) is None  # type: ignore[attr-defined]
    before = running.counters()["stopped"]
    hog = Hog(running, lambda goes_on: computes(goes_on, 0.03))
    threads = Threads()
    threads.start(hog)
    threads.start(lambda: short(running, hog))
    threads.join()
    assert running.counters()["stopped"] == before
    assert running.set_preempt(2)
    assert stopped_while(running, computes)[0] >= 1


def test_a_fork_of_who_was_stopped_and_of_others_meanwhile_runs_on(running: Running) -> None:
    def work(goes_on: Callable[[], bool]) -> int:
        computes(goes_on)
        child = os.fork()
        if child == 0:
            try:
                spin(0.01)
                os._exit(7)
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    stopped, code = stopped_while(running, work)
    assert stopped >= 1
    assert code == 7


def test_an_exception_from_elsewhere_reaches_who_stood_still(running: Running) -> None:
    import ctypes

    class Told(Exception):
        pass

    idents: list[int] = []

    def work(goes_on: Callable[[], bool]) -> str:
        idents.append(threading.get_ident())
        try:
            computes(lambda: True, 5)
        except Told:
            return "told"
        return "missed"

    hog = Hog(running, work)

    def teller() -> bool:
        hog.begun.wait()
        with job(running, SHORT):
            until(lambda: idents)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(idents[0]), ctypes.py_object(Told))
            spin(0.01)
        return True

    threads = Threads()
    threads.start(hog)
    threads.start(teller)
    assert threads.join() == ["told", True]


def test_a_thread_that_dies_over_its_allowance_leaves_nothing_behind(running: Running) -> None:
    hog = Hog(running, computes)

    def dies() -> None:
        running.open(scenario.environ("/heavy/hog"), time.monotonic_ns())
        from greenlane import phase

        phase.name(f"{HOG}/dies")
        spin(0.005)
        hog.begun.set()
        computes(lambda: not hog.enough, 0.5)
        # Its job is never closed.

    threads = Threads()
    threads.start(dies)
    threads.start(lambda: short(running, hog))
    threads.join()


def test_where_no_tools_id_is_free_nothing_is_stopped() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    for each in (3, 4):
        monitoring.use_tool_id(each, "somebody")
    running = scenario.start("on", preempt_ms=2.0)
    try:
        assert not running.set_preempt(2.0)
        hog = Hog(running, lambda goes_on: computes(goes_on, 0.02))
        threads = Threads()
        threads.start(hog)
        threads.start(lambda: short(running, hog))
        threads.join()
        assert running.counters()["stopped"] == 0
        assert [monitoring.get_tool(each) for each in (3, 4)] == ["somebody"] * 2
    finally:
        running.stop()
        for each in (3, 4):
            monitoring.free_tool_id(each)


def test_who_takes_our_id_from_us_keeps_it() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    running = scenario.start("on", preempt_ms=2.0)
    try:
        monitoring.free_tool_id(4)
        monitoring.use_tool_id(4, "somebody")
        monitoring.set_local_events(4, computes.__code__, monitoring.events.LINE)
        hog = Hog(running, lambda goes_on: computes(goes_on, 0.05))
        threads = Threads()
        threads.start(hog)
        threads.start(lambda: short(running, hog))
        threads.join()
    finally:
        running.stop()
    assert monitoring.get_tool(4) == "somebody"
    assert monitoring.get_local_events(4, computes.__code__) == monitoring.events.LINE
    monitoring.free_tool_id(4)


def test_other_tools_see_what_they_see_without_us(running: Running) -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    events = monitoring.events
    lines: dict[str, set[int]] = {"alone": set(), "beside": set()}
    into = "alone"

    def watched(goes_on: Callable[[], bool]) -> int:
        total = 0
        for number in range(3):
            total += number
        while goes_on():
            total += 1
            if total % 2:
                total += 2
        return total

    def seen(code: Any, line: int) -> None:
        if code is watched.__code__:
            lines[into].add(line)

    monitoring.use_tool_id(1, "a coverage")
    traced: list[str] = []
    try:
        monitoring.register_callback(1, events.LINE, seen)
        monitoring.set_events(1, events.LINE)
        rounds = iter(range(20))
        watched(lambda: next(rounds, None) is not None)
        into = "beside"
        stopped, _ = stopped_while(running, watched)
    finally:
        monitoring.set_events(1, 0)
        monitoring.register_callback(1, events.LINE, None)
        monitoring.free_tool_id(1)
    assert stopped >= 1
    assert lines["beside"] == lines["alone"]

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        if frame.f_code is watched.__code__:
            traced.append(event)
        return trace

    def traces(goes_on: Callable[[], bool]) -> int:
        sys.settrace(trace)
        try:
            return watched(goes_on)
        finally:
            sys.settrace(None)

    stopped, _ = stopped_while(running, traces)
    assert stopped >= 1
    assert traced.count("call") == traced.count("return") == 1


def test_events_are_gone_when_nobody_is_asked(running: Running) -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    codes = [each.__code__ for each in (computes, spin, short)]
    stopped_while(running, computes)
    assert [monitoring.get_local_events(4, code) for code in codes] == [0, 0, 0]
    assert monitoring.get_events(4) == 0


def test_take_and_give_back_are_idempotent() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    assert stopping.take()
    assert stopping.take()
    assert monitoring.get_tool(4) == "greenlane"
    stopping.give_back()
    stopping.give_back()
    assert monitoring.get_tool(4) is None
    _native.boundary("no", "tool", "no job")
