"""`@greenlane.placed` without a pin: what is tried, what never is, and that no call is hurt by it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.placement import habits, work

from greenlane.errors import WorkerDied
from greenlane.lanes.permits import make_permits
from greenlane.placement import Call, Placement
from greenlane.placement.functions import PlacedFunction
from greenlane.placement.payload import Payload
from greenlane.placement.processes.options import ProcessOptions
from greenlane.placement.rule import Cost, PlacedRow
from greenlane.settings import Settings
from greenlane.wiring.executors import RemoteExecutors

#: This many calls are enough for any choice; tests wait for less.
MANY = 400
MS = 1_000_000


class Auto:
    """A placement of its own, and one function under it."""

    def __init__(self, fn: Callable[..., Any], **settings: Any) -> None:
        given = Settings(**{"process_workers": 1, **settings})
        self.permits = make_permits(given, mode=given.mode)
        self.executors = RemoteExecutors(given)
        self.placement = Placement(given, lambda: self.permits, self.executors)
        self.function = PlacedFunction(fn)

    def __call__(self, *args: Any) -> Any:
        return self.placement.run_placed(self.function, args, {})

    @property
    def row(self) -> PlacedRow:
        return self.placement.placed()[0]

    @property
    def in_processes(self) -> int:
        return self.placement.counters()["placed_process"]

    def prefer_processes(self) -> None:
        """As if the rule had said so."""
        choice = self.placement._choice(self.function)
        choice._ran, choice._released = (50 * MS,) * 3, (0.0,) * 3
        choice._measured_ns = time.monotonic_ns()
        choice._payload, choice._unready = Payload(in_band=1), 0

    def close(self) -> None:
        self.placement.lane.close(2)
        self.executors.close(2)


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Auto] = []

    def new(fn: Callable[..., Any], **settings: Any) -> Auto:
        made.append(Auto(fn, **settings))
        return made[-1]

    yield new
    for each in made:
        each.close()


@pytest.mark.slow
def test_python_that_computes_goes_to_a_process_and_every_call_gets_its_result(make: Any) -> None:
    run = make(habits.plain)
    for number in range(10 * MANY):  # workers start slowly on a crowded machine
        assert run(number)[1] == number
        if run.in_processes >= 4:
            break
    assert run.row.placement == "process", run.row
    assert "MB pickled" in run.row.reason


@pytest.mark.slow
def test_on_a_loop_it_never_runs_on_the_loops_thread(make: Any) -> None:
    run = make(habits.where_it_burns)

    async def main() -> set[tuple[int, int]]:
        return {await run() for _ in range(12)}

    assert (os.getpid(), threading.get_native_id()) not in asyncio.run(main())


def test_a_light_function_stays_where_its_caller_is(make: Any) -> None:
    run = make(habits.where)
    for _ in range(MANY):
        if run() == (os.getpid(), threading.get_native_id()):
            break
    else:
        pytest.fail(str(run.row))
    assert run.row.placement == "inline"
    assert "a loop bears it" in run.row.reason
    assert run.in_processes == 0


def test_a_heavy_mark_keeps_it_off_the_loop(make: Any) -> None:
    run = make(habits.where)
    run.function.wrapper = type("Marked", (), {"__greenlane_weight__": "heavy"})()
    for _ in range(20):
        assert run() != (os.getpid(), threading.get_native_id())


CLOSED_OVER = 3


def _closure() -> Callable[[int], int]:
    number = CLOSED_OVER

    def inner(other: int) -> int:
        work.burn(habits.BURN_MS)
        return number + other

    return inner


def _odd(value: object = None) -> tuple[object, ...]:
    return (habits.Odd(),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fn", "arguments", "reason"),
    [
        (_closure(), lambda: (1,), "closure: it uses number"),
        (lambda number: work.burn(habits.BURN_MS), lambda: (1,), "lambda"),
        (habits.takes_anything, _odd, "an argument cannot be pickled"),
        (habits.takes_anything, lambda: ([{"row": index, "text": f"{index:080}"} for index in range(20_000)],), "1 MB"),
        (habits.gives_odd, lambda: (1,), "its result cannot be pickled"),
        (habits.writes_to_argument, lambda: ([3, 1],), "changes its argument"),
        (habits.lets_another_write, lambda: ([3, 1],), "changes its argument"),
        (habits.sorts_argument, lambda: ([3, 1],), "changes its argument"),
        (habits.counts, lambda: (1,), "the global COUNT"),
        (habits.reads_the_request, lambda: (1,), "REQUEST, which belongs to this process"),
        (habits.takes_the_lock, lambda: (1,), "LOCK, which belongs to this process"),
    ],
    ids=lambda value: getattr(value, "__name__", None) if callable(value) else None,
)
def test_what_must_not_cross_stays_and_says_why(make: Any, fn: Any, arguments: Any, reason: str) -> None:
    run = make(fn)
    for _ in range(12):
        given = arguments()
        run(*given)
        if fn is habits.writes_to_argument:
            assert given[0] == [7, 1]
        if "stays" in run.row.reason:
            break
    assert run.row.placement == "thread"
    assert reason in run.row.reason
    assert run.in_processes == 0


@pytest.mark.slow
def test_an_argument_that_cannot_cross_sends_that_call_to_the_thread_once(make: Any) -> None:
    run = make(habits.takes_anything)
    run.prefer_processes()
    assert run(1) != os.getpid()
    assert run(habits.Odd()) == os.getpid()
    assert run(1) == os.getpid()
    assert "cannot be pickled" in run.row.reason or "pickled" in run.row.reason
    assert run.in_processes == 1


@pytest.mark.slow
def test_a_death_is_the_callers_to_know_of_and_is_not_repeated(make: Any, tmp_path: Path) -> None:
    run = make(habits.dies_in_a_worker)
    run.prefer_processes()
    marks = tmp_path / "marks"
    with pytest.raises(WorkerDied):
        run(marks)
    assert marks.read_text() == "x"
    assert run(marks) == os.getpid()
    assert "died" in run.row.reason


@pytest.mark.slow
def test_when_all_workers_are_busy_and_none_may_wait_the_thread_takes_it(make: Any, tmp_path: Path) -> None:
    run = make(habits.where)
    run.prefer_processes()
    run.executors("process").options = ProcessOptions(workers=1, queue=0)
    while run()[0] == os.getpid():  # the worker is starting
        pass
    begun, let_go = tmp_path / "begun", tmp_path / "let go"
    busy = threading.Thread(target=run, args=(begun, let_go))
    busy.start()
    try:
        work.appears(begun)
        assert run()[0] == os.getpid()
        assert "stays" not in run.row.reason
    finally:
        let_go.touch()
        busy.join()
    assert run()[0] != os.getpid()


@pytest.mark.slow
def test_an_array_from_a_process_may_be_written_to(make: Any) -> None:
    run = make(habits.ones)
    run.prefer_processes()
    for count in (10, 100_000):
        result = run(count)
        result[0] = 5
        assert result.sum() == count + 4
    assert run.in_processes == 2


@pytest.mark.slow
def test_what_it_raises_in_a_process_is_raised_and_says_nothing_against_it(make: Any) -> None:
    run = make(habits.raises)
    run.prefer_processes()
    for number in range(3):
        with pytest.raises(LookupError, match=str(number)):
            run(number)
    assert run.in_processes == 3


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_switched_off_everything_runs_on_the_thread(make: Any, mode: str) -> None:
    run = make(habits.where, mode=mode)
    run.prefer_processes()
    for _ in range(5):
        process, thread = run()
        assert process == os.getpid()
        assert thread != threading.get_native_id()


def test_workers_that_cannot_be_had_are_no_error(make: Any) -> None:
    run = make(habits.plain, process_warm_up="nowhere:function")
    for number in range(12):
        assert run(number) == (os.getpid(), number)
    assert "a function that can be imported" in run.row.reason


@pytest.mark.slow
def test_a_call_that_no_worker_could_begin_runs_on_the_thread(make: Any) -> None:
    run = make(habits.plain, process_warm_up=f"{habits.__name__}:fails_in_a_worker")
    run.prefer_processes()
    assert run(1) == (os.getpid(), 1)


@pytest.mark.slow
def test_calls_that_leave_the_gil_run_beside_each_other(make: Any) -> None:
    run = make(time.sleep)

    async def main() -> float:
        for _ in range(5):
            await run(0.02)
        began = time.monotonic()
        await asyncio.gather(*[run(0.2) for _ in range(8)])
        return time.monotonic() - began

    assert asyncio.run(main()) < 1.2, "1.6 s one after the other"
    assert "it blocks nothing else" in run.row.reason


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core calls compute one at a time")
def test_calls_that_compute_without_the_gil_take_no_turns(make: Any) -> None:
    at_once: set[int] = set()
    seen: list[int] = []

    def hashed() -> None:
        at_once.add(threading.get_ident())
        seen.append(len(at_once))
        hashlib.pbkdf2_hmac("sha256", b"", b"", 60_000)
        at_once.discard(threading.get_ident())

    run = make(hashed)

    async def caller(calls: int) -> None:
        for _ in range(calls):
            await run()

    async def main() -> None:
        await caller(6)
        seen.clear()
        await asyncio.gather(*[caller(10) for _ in range(4)])

    asyncio.run(main())
    assert "it blocks nothing else" in run.row.reason
    assert seen.count(1) < len(seen) // 4, seen


def test_a_child_of_a_fork_asks_for_its_own_workers(make: Any) -> None:
    run = make(habits.light)
    run.prefer_processes()
    choice = run.placement._choice(run.function)
    assert choice.next().place == "process"
    child = os.fork()
    if not child:
        os._exit(7 if choice.next().place == "thread" and choice.wants_workers() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_what_would_cost_too_much_to_send_stays(make: Any) -> None:
    run = make(habits.plain)
    run.prefer_processes()
    choice = run.placement._choice(run.function)
    choice._payload = Payload(in_band=1, pickling_ns=10 * MS)
    assert choice.next().place == "thread"
    assert "would cost too much" in run.row.reason


def test_what_is_slower_there_comes_back(make: Any) -> None:
    run = make(habits.plain)
    run.prefer_processes()
    choice = run.placement._choice(run.function)
    for _ in range(8):
        call = Call(habits.plain)
        call.begin()
        call.finish(None)
        call.ran_ns = 110 * MS
        choice.ended(call, Cost(choice, "process"))
    assert choice.next().place == "thread"
    assert "it takes 110 ms there" in run.row.reason
