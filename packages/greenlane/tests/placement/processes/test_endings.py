"""Workers end with their parent, whatever ends it, and are nobody else's."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from tests.lanes.burners import until
from tests.placement.processes import functions
from tests.placement.processes.conftest import Make
from tests.placement.processes.running import LONGEST_S, appears, is_alive, run

from greenlane.placement.processes.executor import ProcessExecutor
from tests.fixtures import RunPython, StartProcess
from tests.where import IMPORT_PATH

# Each starts processes.
pytestmark = pytest.mark.slow

PROGRAM = """
import sys, time, threading
sys.path[:0] = {root!r}.split(":")
from greenlane.placement.processes.executor import ProcessExecutor
from greenlane.placement.processes.options import ProcessOptions
from greenlane.placement import Call
from tests.placement.processes import functions

def run(executor, fn, *args):
    done = threading.Event()
    call = Call(fn, args)
    call.add_done_callback(lambda _: done.set())
    executor.submit(call)
    assert done.wait(30)
    return call.result()

def mine(value):
    return Mine(value.number + 1)

class Mine:
    def __init__(self, number):
        self.number = number

"""


def program(rest: str) -> str:
    return PROGRAM.format(root=IMPORT_PATH) + textwrap.dedent(rest)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_workers_end_when_their_parent_is_killed(start_process: StartProcess, number: int, busy: bool) -> None:
    source = program(f"""
        executor = ProcessExecutor(ProcessOptions(workers=1))
        pid = run(executor, functions.pid)
        if {busy}:
            executor.submit(Call(functions.spin_forever))
        print("worker", pid, flush=True)
        time.sleep(60)
    """)
    parent = start_process([sys.executable, "-c", source])
    worker = int(parent.wait_output(r"worker (\d+)")[1])
    assert is_alive(worker)
    parent.signal(number)
    parent.wait_exit()
    until(lambda: not is_alive(worker), LONGEST_S)


def test_a_program_that_forgets_to_close_ends_at_once_and_quietly(run_python: RunPython) -> None:
    done = run_python(
        program("""
        executor = ProcessExecutor(ProcessOptions(workers=2))
        kept = run(executor, functions.arange, 500_000)
        executor.submit(Call(functions.spin_forever))
        print("worker", run(executor, functions.pid))
    """)
    )
    assert done.stderr == ""
    assert not is_alive(int(done.stdout.split()[1]))


def test_functions_and_classes_of_the_main_module_cross(run_python: RunPython, tmp_path: object) -> None:
    path = os.path.join(str(tmp_path), "program.py")
    rest = """
        if __name__ == "__main__":
            executor = ProcessExecutor(ProcessOptions(workers=1))
            print(run(executor, mine, Mine(41)).number)
            executor.close(1)
    """
    with open(path, "w") as file:
        file.write(program(rest))
    done = run_python(f"import subprocess, sys; subprocess.run([sys.executable, {path!r}], check=True)")
    assert done.stdout.strip() == "42"


def test_functions_of_a_main_module_that_lies_nowhere_are_refused(run_python: RunPython) -> None:
    done = run_python(
        program("""
        from greenlane.errors import PlacementError
        try:
            ProcessExecutor(ProcessOptions(workers=1)).submit(Call(mine, (Mine(41),)))
        except PlacementError as error:
            print(error)
    """)
    )
    assert "function='__main__.mine', expected one of a module that a worker can import" in done.stdout


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_results_block_is_not_used_again_while_a_forked_child_looks_into_it(make: Make) -> None:
    executor = make()
    held = run(executor, functions.arange, 250_000)
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go_read, 1)
        os._exit(0 if (held[-3:] == [249_997, 249_998, 249_999]).all() else 1)
    del held
    for number in range(8):
        run(executor, functions.filled, 250_000, number)
    os.write(go_write, b"g")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(go_read)
    os.close(go_write)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_childs_end_does_the_parents_workers_no_harm(executor: ProcessExecutor) -> None:
    before = run(executor, functions.pid)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            mine = run(executor, functions.pid)
            executor.close(1)
            status = 0 if mine != before and not is_alive(mine) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run(executor, functions.pid) == before


def test_what_a_placed_function_forks_keeps_its_arguments(executor: ProcessExecutor, tmp_path: Path) -> None:
    go, told = tmp_path / "go", tmp_path / "told"
    run(executor, functions.fork_a_reader, functions.arange(250_000), go, told)
    for number in range(4):
        run(executor, functions.same, functions.filled(250_000, number))
    go.touch()
    appears(told)
    assert told.read_text() == "1000"


def test_an_answer_that_cannot_be_read_fails_its_call_and_no_other(run_python: RunPython) -> None:
    source = program("""
        import resource
        executor = ProcessExecutor(ProcessOptions(workers=1))
        run(executor, functions.pid)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            run(executor, functions.arange, 250_000)
        except Exception as error:
            print(type(error).__name__, repr(error.__cause__))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        print(len(run(executor, functions.arange, 250_000)))
        executor.close(5)
    """)
    done = run_python(source)
    assert done.stdout == "WorkerDied OSError(24, 'Too many open files')\n250000\n"
