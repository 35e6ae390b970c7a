"""Births, ends and replacements of workers, and what their calls see of them."""

from __future__ import annotations

import os
import signal
import time
import traceback
from pathlib import Path

import pytest
from tests.lanes.burners import until
from tests.placement.processes import functions
from tests.placement.processes.conftest import Make
from tests.placement.processes.running import LONGEST_S, appears, descriptors, ended, is_alive, run, submitted

from greenlane.errors import Cancelled, DeadlineExceeded, PlacementError, SettingsError, WorkerDied
from greenlane.placement import Call, State
from greenlane.placement.processes.answers import WorkerTraceback
from greenlane.placement.processes.executor import ProcessExecutor
from greenlane.placement.processes.options import ProcessOptions

# Each starts processes.
pytestmark = pytest.mark.slow


def test_a_death_fails_its_call_by_name_with_signal_and_last_line(make: Make) -> None:
    executor = make()
    with pytest.raises(WorkerDied) as caught:
        run(executor, functions.die, int(signal.SIGKILL))
    error = caught.value
    assert (error.signal, error.exit_status, error.last_line) == (9, -9, "last line of the worker")
    assert "run die in a worker process" in str(error)
    assert "killed by SIGKILL" in str(error)
    assert run(executor, functions.same, 1) == 1
    assert executor.stats().deaths == 1


def test_a_crash_says_where(make: Make) -> None:
    with pytest.raises(WorkerDied, match=r"SIGABRT.*Fatal Python error: Aborted.*functions\.py.* in abort"):
        run(make(), functions.abort)


def test_an_exit_status_is_told(make: Make) -> None:
    with pytest.raises(WorkerDied, match="exited with status 3"):
        run(make(), functions.leave, 3)


def test_a_death_is_noticed_while_a_child_of_the_worker_lives_on(make: Make, tmp_path: Path) -> None:
    executor = make()
    try:
        with pytest.raises(WorkerDied, match="exited with status 3"):
            run(executor, functions.leave_a_child, tmp_path / "child")
        assert run(executor, functions.same, 1) == 1
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_death_fails_only_its_own_call(make: Make, tmp_path: Path) -> None:
    executor = make(workers=2)
    spinning = submitted(executor, functions.spin_until_told, tmp_path / "begun", tmp_path / "met")
    appears(tmp_path / "begun")
    calls = [submitted(executor, functions.leave, 1)] + [submitted(executor, functions.same, n) for n in range(5)]
    with pytest.raises(WorkerDied):
        ended(calls[0])
    assert [ended(call) for call in calls[1:]] == list(range(5))
    assert spinning.state is State.RUNNING
    executor.cancel(spinning)


class InterruptedCall(Call):
    """One whose caller gets a Ctrl-C in the middle of handing it over."""

    def begin(self) -> bool:
        super().begin()
        raise KeyboardInterrupt


def test_an_interrupt_while_a_call_is_handed_over_costs_no_other_call(make: Make) -> None:
    executor = make()
    run(executor, functions.pid)
    for _ in range(2):
        until(lambda: bool(executor._idle), LONGEST_S)
        with pytest.raises(KeyboardInterrupt):
            executor.submit(InterruptedCall(functions.pid))
        assert run(executor, functions.same, 1) == 1
    assert not executor._orders


def test_an_idle_worker_that_dies_costs_no_call(make: Make) -> None:
    executor = make()
    for turn in range(3):
        os.kill(run(executor, functions.pid), signal.SIGKILL)
        assert run(executor, functions.same, turn) == turn


def test_the_warm_up_runs_before_the_first_call_of_each_worker(make: Make) -> None:
    executor = make(warm_up=functions.warm_up)
    assert run(executor, functions.warmth) == ["warm"]
    with pytest.raises(WorkerDied):
        run(executor, functions.leave, 1)
    assert run(executor, functions.warmth) == ["warm"]


def test_a_warm_up_that_fails_fails_what_waits_and_says_why(make: Make) -> None:
    executor = make(warm_up=functions.cold_start)
    for _ in range(2):
        with pytest.raises(WorkerDied, match=r"start a worker process.*its warm-up raised LookupError") as caught:
            run(executor, functions.pid)
        assert isinstance(caught.value.__cause__, LookupError)
        assert "in cold_start" in "".join(traceback.format_exception(caught.value))


def test_a_worker_that_does_not_get_ready_in_time_is_killed(make: Make) -> None:
    executor = make(warm_up=_sleepless, start_timeout_s=0.1)
    with pytest.raises(WorkerDied, match=r"was not ready within 0\.1 s"):
        run(executor, functions.pid)


def _sleepless() -> None:
    time.sleep(LONGEST_S)


def test_a_worker_is_replaced_after_its_calls_and_no_call_fails(make: Make) -> None:
    executor = make(max_calls=10)
    pids = []
    until_s = time.monotonic() + LONGEST_S
    while len(set(pids)) < 3:
        assert time.monotonic() < until_s
        pids.append(run(executor, functions.pid))
    first = pids.count(pids[0])
    assert first >= 10
    until(lambda: not is_alive(pids[0]), LONGEST_S)
    assert executor.stats().deaths == 0


def test_a_cancelled_call_ends_in_its_worker_at_a_checkpoint(make: Make, tmp_path: Path) -> None:
    executor = make()
    call = submitted(executor, functions.spin_until_told, tmp_path / "begun", tmp_path / "met")
    appears(tmp_path / "begun")
    assert executor.cancel(call)
    appears(tmp_path / "met")
    with pytest.raises(Cancelled):
        call.result()
    assert run(executor, functions.same, 1) == 1
    assert (tmp_path / "met").read_text() == "Cancelled"
    assert executor.stats().late == 1


def test_a_running_call_fails_at_its_deadline_and_ends_in_its_worker_at_a_checkpoint(
    make: Make, tmp_path: Path
) -> None:
    executor = make()
    run(executor, functions.pid)
    call = submitted(executor, functions.spin_until_told, tmp_path / "begun", tmp_path / "met", within_s=0.3)
    with pytest.raises(DeadlineExceeded):
        ended(call)
    assert run(executor, functions.same, 1) == 1
    assert (tmp_path / "met").read_text() == "DeadlineExceeded"


def test_a_late_answer_reaches_nobody_else(make: Make, tmp_path: Path) -> None:
    executor = make()
    late = submitted(executor, functions.spin_deaf, tmp_path / "begun", 0.2)
    appears(tmp_path / "begun")
    late.cancel()
    assert [run(executor, functions.same, number) for number in range(5)] == list(range(5))
    assert late.state is State.CANCELLED
    assert executor.stats().late == 1


def test_a_deaf_call_is_killed_after_the_grace(make: Make, tmp_path: Path) -> None:
    executor = make(kill_after_s=0.05)
    before = run(executor, functions.pid)
    call = submitted(executor, functions.spin_deaf, tmp_path / "begun")
    appears(tmp_path / "begun")
    executor.cancel(call)
    assert run(executor, functions.pid) != before


def test_an_exception_brings_its_traceback(executor: ProcessExecutor) -> None:
    with pytest.raises(PlacementError) as caught:
        run(executor, functions.nest)
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    assert "in nest" in caught.value.__cause__.text
    assert "child.py" not in caught.value.__cause__.text


def test_a_worker_starts_no_workers(executor: ProcessExecutor) -> None:
    with pytest.raises(PlacementError, match="one that is no worker itself"):
        run(executor, functions.nest)


@pytest.mark.parametrize("fn", [functions.raise_awkward, functions.raise_lock])
def test_an_exception_that_cannot_cross_is_named_and_costs_no_worker(executor: ProcessExecutor, fn: object) -> None:
    before = run(executor, functions.pid)
    with pytest.raises(PlacementError, match="carry an exception from a worker process"):
        run(executor, fn)  # type: ignore[arg-type]
    assert run(executor, functions.pid) == before


def test_a_worker_ignores_the_terminals_interrupt_alone_and_has_no_descriptors_but_its_own(
    executor: ProcessExecutor,
) -> None:
    inheritable = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    try:
        fresh = ProcessExecutor(ProcessOptions(workers=1))
        opened = run(fresh, functions.open_descriptors)
        fresh.close(0)
    finally:
        os.close(inheritable)
    assert "/dev/zero" not in opened
    assert opened.count("socket") == 1
    ours = {signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ}  # Python itself ignores the last two
    assert set(run(executor, functions.ignored_signals)) <= ours


def test_a_worker_is_known_by_name_and_goes_before_its_parent_when_memory_runs_out(executor: ProcessExecutor) -> None:
    folder = Path(f"/proc/{run(executor, functions.pid)}")
    assert (folder / "comm").read_text() == "greenlane-pool\n"
    ours = int(Path("/proc/self/oom_score_adj").read_text())
    assert int((folder / "oom_score_adj").read_text()) == min(ours + 200, 1000)


def test_nothing_is_left_after_closing() -> None:
    before = set(descriptors().values())
    executor = ProcessExecutor(ProcessOptions(workers=2))
    pids = {run(executor, functions.pid) for _ in range(10)}
    with pytest.raises(WorkerDied):
        run(executor, functions.leave, 1)
    executor.close(1)
    assert not [pid for pid in pids if is_alive(pid)]
    assert set(descriptors().values()) <= before
    with pytest.raises(PlacementError, match="closed"):
        executor.submit(Call(functions.pid))


@pytest.mark.parametrize(
    ("name", "value"),
    [("workers", -1), ("queue", -1), ("kill_after_s", -1), ("max_calls", -1)],
)
def test_options_are_checked(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=name):
        ProcessOptions(**{name: value})  # type: ignore[arg-type]


def test_an_option_out_of_its_range_is_told_the_range_in_plain_numbers() -> None:
    with pytest.raises(SettingsError, match=r"queue=-1, expected a number from 0 to 1000000\n"):
        ProcessOptions(queue=-1)
