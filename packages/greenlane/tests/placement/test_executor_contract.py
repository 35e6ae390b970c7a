"""What every executor of placed calls promises, held over each of them; see `greenlane/placement/executor.py`."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lanes.burners import together, until
from tests.placement import work
from tests.placement.cluster.lent import Lent
from tests.placement.executors import EXECUTORS, NEEDS, PARAMETERS

from greenlane.errors import Cancelled, DeadlineExceeded, Overloaded, PlacementError
from greenlane.placement import Call, Executor, State

Make = Callable[..., Executor]
ENDED = (State.FINISHED, State.FAILED, State.CANCELLED)


@pytest.fixture(params=PARAMETERS)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes executors of one kind, closed with the test unless they are lent."""
    needed = [request.getfixturevalue(name) for name in NEEDS.get(request.param, ((), ()))[1]]
    with contextlib.ExitStack() as open_ones:

        def made(most_waiting: int = 100) -> Executor:
            executor = EXECUTORS[request.param](most_waiting, *needed)
            if not isinstance(executor, Lent):
                open_ones.callback(executor.close, 2.0)
            return executor

        yield made


@pytest.fixture
def executor(make: Make) -> Executor:
    """One with room for a hundred waiting calls."""
    return make()


def submitted(executor: Executor, fn: Callable[..., object], *args: object, **kwargs: object) -> Call:
    call = Call(fn, args, kwargs)
    executor.submit(call)
    return call


def ended(call: Call) -> object:
    """Its result, or what it raised."""
    until(lambda: call.state in ENDED, work.LONGEST_S)
    return call.result()


@pytest.fixture
def busy(executor: Executor, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """The executor's worker is busy until this is called."""
    call = submitted(executor, work.held, tmp_path / "begun", tmp_path / "let go")
    work.appears(tmp_path / "begun")
    yield (tmp_path / "let go").touch
    (tmp_path / "let go").touch()
    ended(call)


def test_it_is_an_executor(executor: Executor) -> None:
    assert isinstance(executor, Executor)


def test_a_call_gives_what_its_function_gives(executor: Executor) -> None:
    assert ended(submitted(executor, work.echo, 1, "two", three=[3.0])) == (1, "two", ("three", [3.0]))


@pytest.mark.parametrize("kind", [ValueError, KeyError, SystemExit, KeyboardInterrupt, StopIteration])
def test_what_a_function_raises_is_the_outcome_and_the_next_call_runs(
    executor: Executor, kind: type[BaseException]
) -> None:
    with pytest.raises(kind) as caught:
        ended(submitted(executor, work.fail, kind, "reason", 7))
    assert caught.value.args == ("reason", 7)
    assert ended(submitted(executor, work.echo, 1)) == (1,)


def test_a_traceback_names_the_function_that_raised(executor: Executor) -> None:
    with pytest.raises(ValueError) as caught:
        ended(submitted(executor, work.fail, ValueError))
    assert "in fail" in "".join(traceback.format_exception(caught.value))


def test_wrong_arguments_are_a_type_error_of_the_call(executor: Executor) -> None:
    with pytest.raises(TypeError, match="burn"):
        ended(submitted(executor, work.burn))


def test_each_caller_gets_its_own_result(executor: Executor) -> None:
    def caller(number: int) -> None:
        for turn in range(20):
            with contextlib.suppress(Overloaded):
                assert ended(submitted(executor, work.echo, number, turn)) == (number, turn)

    together([lambda number=number: caller(number) for number in range(8)])


def test_a_cancelled_waiting_call_never_begins(executor: Executor, busy: Callable[[], None], tmp_path: Path) -> None:
    call = submitted(executor, work.touch, tmp_path / "ran")
    assert executor.cancel(call)
    assert not executor.cancel(call), "it has ended already"
    busy()
    assert ended(submitted(executor, work.echo, 1)) == (1,)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(Cancelled):
        call.result()


def test_a_cancelled_running_call_ends_for_its_caller_and_then_for_its_worker(
    executor: Executor, tmp_path: Path
) -> None:
    call = submitted(executor, work.until_told, tmp_path / "begun", tmp_path / "met")
    work.appears(tmp_path / "begun")
    assert executor.cancel(call)
    assert call.state is State.CANCELLED
    assert ended(submitted(executor, work.echo, 1)) == (1,)


def test_a_call_past_its_deadline_does_not_begin(executor: Executor, busy: Callable[[], None], tmp_path: Path) -> None:
    call = Call(work.touch, (tmp_path / "ran",), deadline_ns=time.monotonic_ns() + 1_000_000)
    executor.submit(call)
    time.sleep(0.002)
    busy()
    with pytest.raises(DeadlineExceeded):
        ended(call)
    assert not (tmp_path / "ran").exists()


def test_a_full_queue_refuses_at_once_and_takes_calls_again_later(make: Make, tmp_path: Path) -> None:
    executor = make(2)
    running = submitted(executor, work.held, tmp_path / "begun", tmp_path / "let go")
    work.appears(tmp_path / "begun")
    waiting = [submitted(executor, work.echo, number) for number in range(2)]
    with pytest.raises(Overloaded, match="hint: "):
        submitted(executor, work.echo, 3)
    assert executor.stats().shed == 1
    (tmp_path / "let go").touch()
    assert [ended(call) for call in [running, *waiting]] == ["let go", (0,), (1,)]
    assert ended(submitted(executor, work.echo, 4)) == (4,)


def test_a_cancelled_waiting_call_makes_room(make: Make, tmp_path: Path) -> None:
    executor = make(1)
    submitted(executor, work.held, tmp_path / "begun", tmp_path / "let go")
    work.appears(tmp_path / "begun")
    executor.cancel(submitted(executor, work.echo, 1))
    kept = submitted(executor, work.echo, 2)
    (tmp_path / "let go").touch()
    assert ended(kept) == (2,)


@pytest.mark.slow
def test_every_call_ends_once_whatever_races_for_it(executor: Executor) -> None:
    endings: list[Call] = []
    calls: list[Call] = []

    def caller(number: int) -> None:
        for turn in range(50):
            call = Call(work.burn, (0.1,))
            call.add_done_callback(endings.append)
            calls.append(call)
            try:
                executor.submit(call)
            except Overloaded:
                call.cancel()
            if (turn + number) % 3 == 0:
                executor.cancel(call)

    together([lambda number=number: caller(number) for number in range(6)])
    until(lambda: len(endings) == len(calls), work.LONGEST_S)
    assert {id(call) for call in endings} == {id(call) for call in calls}
    until(lambda: executor.stats().running == executor.stats().queued == 0, work.LONGEST_S)


def test_it_counts_what_becomes_of_calls(executor: Executor, busy: Callable[[], None]) -> None:
    before = executor.stats()
    assert (before.running, before.queued) == (1, 0)
    calls = [submitted(executor, work.echo), submitted(executor, work.fail, ValueError), submitted(executor, work.echo)]
    assert executor.stats().queued == 3
    executor.cancel(calls[2])
    busy()
    until(lambda: executor.stats().done == 2, work.LONGEST_S)
    until(lambda: executor.stats().running == 0, work.LONGEST_S)
    after = executor.stats()
    assert (after.done, after.failed, after.cancelled, after.shed, after.queued) == (2, 1, 1, 0, 0)


def test_closing_lets_what_runs_end_fails_what_waits_and_refuses_the_rest(executor: Executor, tmp_path: Path) -> None:
    running = submitted(executor, work.held, tmp_path / "begun", tmp_path / "let go")
    work.appears(tmp_path / "begun")
    waiting = submitted(executor, work.echo)
    closing = threading.Thread(target=executor.close, args=(work.LONGEST_S,))
    closing.start()
    with pytest.raises(PlacementError):
        ended(waiting)
    (tmp_path / "let go").touch()
    closing.join(work.LONGEST_S)
    assert ended(running) == "let go"
    with pytest.raises(PlacementError):
        submitted(executor, work.echo)
    executor.close(0)


def test_closing_fails_what_does_not_end_in_time(executor: Executor, tmp_path: Path) -> None:
    running = submitted(executor, work.until_told, tmp_path / "begun", tmp_path / "met")
    work.appears(tmp_path / "begun")
    executor.close(0.01)
    with pytest.raises(PlacementError):
        ended(running)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_anew(executor: Executor, busy: Callable[[], None]) -> None:
    waiting = submitted(executor, work.echo, "parent's")
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            fresh = executor.stats()
            status = 2 if (fresh.running, fresh.queued) != (0, 0) else 3
            if ended(submitted(executor, work.echo, "child's")) == ("child's",) and status == 3:
                status = 0
        os._exit(status)
    busy()
    assert ended(waiting) == ("parent's",)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
