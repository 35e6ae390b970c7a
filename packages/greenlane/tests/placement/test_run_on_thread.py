"""`greenlane.run(...)` from plain threads, and at the ends of a process."""

from __future__ import annotations

import itertools
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from tests.lanes.burners import together
from tests.placement import work
from tests.placement.placements import Placed, placed

import greenlane
from greenlane import job, phase, within_ms
from greenlane.errors import DeadlineExceeded
from greenlane.lanes.permits import learned_rows

#: Where the sources are whose every line may be interrupted.
OURS = str(Path(greenlane.__file__).parent)


@pytest.fixture
def run() -> Iterator[Placed]:
    with placed() as made:
        yield made


def test_it_gives_the_result_of_a_call_on_the_lanes_thread(run: Placed) -> None:
    assert run(work.echo, 1, two=2) == (1, ("two", 2))
    assert run(threading.get_ident) != threading.get_ident()


def test_many_threads_get_their_own_results(run: Placed) -> None:
    def caller(number: int) -> None:
        for turn in range(20):
            assert run(work.echo, number, turn) == (number, turn)

    together([lambda number=number: caller(number) for number in range(8)])


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, StopIteration])
def test_what_the_function_raises_is_raised(run: Placed, kind: type[BaseException]) -> None:
    with pytest.raises(kind) as caught:
        run(work.fail, kind, "reason")
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-1] == "fail"


def test_the_callers_phase_ends_while_it_waits(run: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []
    me = threading.get_ident()
    monkeypatch.setattr(phase, "leave", lambda kind: threading.get_ident() == me and heard.append(kind))
    monkeypatch.setattr(phase, "enter", lambda: threading.get_ident() == me and heard.append("enter"))
    run(work.burn, 1)
    assert heard == [phase.Kind.FUTURE, "enter"]


def test_a_deadline_answers_the_caller_on_time(run: Placed, tmp_path: Path) -> None:
    with pytest.raises(DeadlineExceeded), within_ms(20):
        run(work.held, tmp_path / "begun", tmp_path / "let go")
    (tmp_path / "let go").touch()
    assert run(work.echo, 1) == (1,)


def test_the_deadline_of_the_threads_job_holds_for_its_calls(run: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase, "remaining_ms", lambda: 0)
    with pytest.raises(DeadlineExceeded):
        run(work.echo)


def test_a_mark_decides_instead_of_what_is_learned(run: Placed) -> None:
    @job.light
    def light() -> int:
        return threading.get_ident()

    @job.heavy
    def heavy() -> int:
        return threading.get_ident()

    assert run(light) == threading.get_ident()
    assert threading.get_ident() not in {run(heavy) for _ in range(20)}


def test_a_pinned_light_function_stays_whatever_it_costs(run: Placed) -> None:
    @job.light
    def slow() -> int:
        time.sleep(0.01)
        return threading.get_ident()

    assert {run(slow) for _ in range(4)} == {threading.get_ident()}


def test_more_functions_than_are_learned_share_a_profile() -> None:
    with placed(max_routes=2) as run:
        for function in (work.echo, threading.get_ident, time.monotonic, time.time):
            run(function)
        run.lane.close(1)
        assert len(run.placement.learned()) <= 3
        assert "run (other)" in run.placement.learned()


def test_calls_are_shown_among_what_is_learned_of_routes(run: Placed) -> None:
    for _ in range(4):
        run(work.burn, 6)
    run.lane.close(1)
    [row] = [row for row in learned_rows(run.permits) if row.route == f"run {work.__name__}.burn"]
    assert (row.weight, row.samples) == ("heavy", 4)
    assert run.permits.counters()["granted"] == 4
    assert run.placement.counters()["placed_thread"] == 4
    assert run.placement.counters()["placed_wait_ns"] > 0


def test_a_closed_lane_leaves_calls_to_their_callers(run: Placed) -> None:
    run.lane.close(1)
    assert run(threading.get_ident) == threading.get_ident()


@job.heavy
def heavy(number: int) -> int:
    return number


@pytest.mark.slow
@pytest.mark.gate
def test_a_call_that_is_placed_in_the_middle_of_another_ones_placing_ends() -> None:
    """As a signal's handler and a finalizer may do it: before each line of our sources that its thread runs."""
    places: list[str] = []

    def place_in_the_middle(number: int) -> bool:
        """Of a call that starts the lane's thread, and of one that wakes it. False = they have fewer lines."""
        run, left = Placed(), number

        def trace(frame: FrameType, event: str, _argument: object) -> object:
            nonlocal left
            if not frame.f_code.co_filename.startswith(OURS):
                return None
            if event == "line":
                left -= 1
                if left == -1:
                    sys.settrace(None)
                    places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
                    assert run(heavy, 2) == 2
            return trace

        sys.settrace(trace)
        try:
            assert [run(heavy, 1), run(heavy, 1)] == [1, 1]
        finally:
            sys.settrace(None)
        run.lane.close(1)
        return left < 0

    caller = threading.Thread(
        target=lambda: all(place_in_the_middle(number) for number in itertools.count()), daemon=True
    )
    caller.start()
    caller.join(30)
    assert not caller.is_alive(), f"it waits forever at {places[-1]}"
    assert len(places) > 100


PROGRAM = """
import atexit, sys, threading, time, greenlane
from pathlib import Path

def slow():
    until = time.thread_time() + 0.05
    while time.thread_time() < until:
        pass
    print("ended", flush=True)

"""


@pytest.mark.slow
def test_the_exit_of_a_process_waits_for_the_call_that_runs(run_python) -> None:
    done = run_python(PROGRAM + "threading.Thread(target=greenlane.run, args=(slow,), daemon=True).start(); "
                      "time.sleep(0.02)")  # fmt: skip
    assert done.stdout in ("ended\n", ""), "the thread may not have begun"


@pytest.mark.slow
def test_other_exit_hooks_and_threads_may_still_place_calls(run_python) -> None:
    program = (
        PROGRAM
        + """
greenlane.run(slow)
atexit.register(greenlane.run, slow)
def later():
    time.sleep(0.05)
    greenlane.run(slow)
threading.Thread(target=later).start()
"""
    )
    assert run_python(program).stdout == "ended\n" * 3


@pytest.mark.slow
def test_a_process_that_is_interrupted_while_it_waits_ends(run_python) -> None:
    program = (
        PROGRAM
        + """
import os, signal
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
def long():
    until = time.monotonic() + 20
    while time.monotonic() < until:
        greenlane.checkpoint()
try:
    greenlane.run(long)
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    began = time.monotonic()
    assert run_python(program).stdout == "interrupted\n"
    assert time.monotonic() - began < 15


CONTROLLED = """
from greenlane.control import client as control

def burn():
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass

greenlane.run(burn)
[process] = control.processes(os.environ["GREENLANE_CONTROL_DIR"])
while (shown := control.ask(process.socket, {"do": "show"}))["counters"]["placed_thread"] == 0:
    time.sleep(0.001)
assert [row["route"] for row in shown["learned"]] == ["run __main__.burn"], shown
control.ask(process.socket, {"do": "mode", "mode": "off"})
assert greenlane.wiring.placed_calls.placement().mode("") == "off"
"""
PATCHED = "import gevent.monkey; gevent.monkey.patch_all()\n"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", PATCHED], ids=["threads", "gevent"])
def test_a_process_that_only_places_calls_can_be_looked_at_and_switched(first: str, run_python, tmp_path) -> None:
    folder = tmp_path / "control"
    folder.mkdir(mode=0o700)
    start = f"import os, time; os.environ['GREENLANE_CONTROL_DIR'] = {str(folder)!r}\nimport greenlane\n"
    run_python(first + start + CONTROLLED)


@pytest.mark.slow
def test_no_thread_of_ours_has_a_hub(run_python, tmp_path) -> None:
    """One that stands in a hub when the interpreter ends breaks the process's memory; see `threads.unpatched`."""
    folder = tmp_path / "control"
    folder.mkdir(mode=0o700)
    start = f"import os, time; os.environ['GREENLANE_CONTROL_DIR'] = {str(folder)!r}\nimport greenlane\n"
    looked = """
import gc, gevent.hub, threading
hubs = [each for each in gc.get_objects() if isinstance(each, gevent.hub.Hub)]
assert [hub for hub in hubs if hub.thread_ident != threading.get_ident()] == [], hubs
"""
    run_python(PATCHED + start + CONTROLLED + looked)


@pytest.mark.slow
@pytest.mark.gate
def test_a_signals_handler_may_place_a_call_in_the_middle_of_another_ones_submission(run_python) -> None:
    program = (
        PROGRAM
        + """
import signal
placed = []
def handler(*_):
    placed.append(greenlane.run(len, "ab"))
    if not over:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
over = False
greenlane.run(abs, -1)  # imports
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005)
until = time.monotonic() + 1
while time.monotonic() < until:
    assert greenlane.run(abs, -1) == 1
over = True
signal.setitimer(signal.ITIMER_REAL, 0)
assert placed and set(placed) == {2}
"""
    )
    run_python(program)


@pytest.mark.slow
@pytest.mark.gate
def test_forks_in_the_middle_of_everything_leave_children_that_can_place_calls(run_python) -> None:
    program = (
        PROGRAM
        + """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
greenlane.run(abs, -1)  # CPython's own locks of what is being imported would stay locked in a child.
ends = False
def caller():
    while not ends:
        greenlane.run(abs, -1)
threads = [threading.Thread(target=caller) for _ in range(4)]
for thread in threads:
    thread.start()
children = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if greenlane.run(len, "ab") == 2 else 2
        finally:
            os._exit(status)
    children.append(child)
    time.sleep(0.002)
until = time.monotonic() + 20
for child in children:
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, 9)
        time.sleep(0.002)
    assert found[1] == 0, found
ends = True
for thread in threads:
    thread.join()
"""
    )
    run_python(program)


@pytest.mark.slow
def test_a_thread_that_a_c_library_ends_is_replaced(run_python) -> None:
    program = (
        PROGRAM
        + """
import ctypes
from greenlane import PlacementError

def leaves():
    begun.set()
    time.sleep(0.02)
    ctypes.CDLL(None).pthread_exit(None)

def dies():
    try:
        greenlane.run(leaves)
    except PlacementError:
        print("failed by name", flush=True)

begun = threading.Event()
thread = threading.Thread(target=dies)
thread.start()
begun.wait()
assert greenlane.run(abs, -1) == 1
thread.join()
os._exit(0)
"""
    )
    assert run_python("import os\n" + program).stdout == "failed by name\n"


@pytest.mark.slow
def test_asking_for_greenlane_loads_nothing_of_what_runs_calls(run_python) -> None:
    program = "import sys, greenlane; print(*[name for name in sys.modules if name.startswith('greenlane.lanes')])"
    assert run_python(program).stdout == "\n"


@pytest.mark.slow
def test_under_a_host_calls_take_turns_with_its_heavy_phases_and_are_counted(run_python) -> None:
    program = (
        PROGRAM
        + """
from greenlane.wiring import process
from greenlane.settings import Settings

running = process.start(Settings(), host="test")
greenlane.run(slow)
while running.counters()["placed_thread"] == 0:
    time.sleep(0.001)
assert any(row.route == "run __main__.slow" for row in running.learned())
assert running.counters()["granted"] == 1
running.stop()
"""
    )
    run_python(program)
