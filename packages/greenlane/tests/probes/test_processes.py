"""Children, pipes and file locks: one phase end where they wait."""

from __future__ import annotations

import fcntl
import multiprocessing
import multiprocessing.pool
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.probes.observer import Observer

from greenlane.phase import Kind
from greenlane.probes import processes
from greenlane.probes.patching import Patches
from greenlane.probes.resources import resource_of

UNTIL_CLOSED = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]


def test_a_child_is_awaited_in_one_phase_end(seen: Observer) -> None:
    with subprocess.Popen(UNTIL_CLOSED, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        with pytest.raises(subprocess.TimeoutExpired):
            seen.during(child.wait, timeout=0.001)
        assert seen.ends == [Kind.PROCESS]
        assert seen.during(child.poll) == []
        seen.meanwhile = child.stdin.close
        assert seen.during(child.wait) == [Kind.PROCESS]
        assert seen.during(child.wait) == []


def test_communicate_and_run_wait_for_a_process_wherever_they_wait(seen: Observer) -> None:
    with subprocess.Popen(UNTIL_CLOSED, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        # Its selects until both pipes have ended, and the wait for the child.
        assert {*seen.during(child.communicate, b"input")} == {Kind.PROCESS}
    assert seen.ends
    done = subprocess.run(UNTIL_CLOSED, input="text", capture_output=True, text=True, check=True)
    assert done.stdout == ""


WAITS: dict[str, Callable[[int], object]] = {
    "wait": lambda pid: os.wait(),
    "waitpid": lambda pid: os.waitpid(pid, 0),
    "wait3": lambda pid: os.wait3(0),
    "wait4": lambda pid: os.wait4(pid, 0),
    "waitid": lambda pid: os.waitid(os.P_PID, pid, os.WEXITED),
}


@pytest.mark.parametrize("name", WAITS)
def test_waiting_in_the_kernel(name: str, seen: Observer) -> None:
    child = subprocess.Popen(UNTIL_CLOSED, stdin=subprocess.PIPE)
    assert child.stdin is not None
    assert seen.during(os.waitpid, child.pid, os.WNOHANG) == []
    seen.meanwhile = child.stdin.close
    assert seen.during(WAITS[name], child.pid) == [Kind.PROCESS]
    child.returncode = 0
    with pytest.raises(ChildProcessError):
        seen.during(os.waitpid, child.pid, 0)


def test_a_file_lock(seen: Observer, tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as one, open(tmp_path / "lock", "w") as two:
        assert seen.during(fcntl.flock, one, fcntl.LOCK_EX | fcntl.LOCK_NB) == []
        with pytest.raises(BlockingIOError):
            seen.during(fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.meanwhile = lambda: fcntl.flock(one, fcntl.LOCK_UN)
        assert seen.during(fcntl.flock, two, fcntl.LOCK_EX) == [Kind.LOCK]
        assert seen.during(fcntl.lockf, two, fcntl.LOCK_EX) == [Kind.LOCK]
        assert seen.during(fcntl.lockf, two, fcntl.LOCK_UN) == []


def test_a_pipe_of_multiprocessing(seen: Observer) -> None:
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        theirs.send({"a": 1})
        assert seen.during(ours.poll) == []
        assert seen.during(ours.poll, 5) == [Kind.SELECT]
        assert seen.during(ours.recv) == [], "it was there"
        seen.meanwhile = lambda: theirs.send("late")
        assert seen.during(ours.recv) == [Kind.PROCESS]
        assert seen.during(ours.send, "text") == [Kind.PROCESS]
        seen.meanwhile = lambda: ours.send("late")
        assert theirs.recv() == "text"
        assert seen.during(theirs.recv) == [Kind.PROCESS]
        assert seen.during(ours.send_bytes, b"abcd") == [Kind.PROCESS]
        assert seen.during(theirs.recv_bytes_into, bytearray(4)) == []
        assert seen.during(ours.poll, 0.001) == [Kind.SELECT]
    with pytest.raises(OSError, match="closed"):
        seen.during(ours.recv)


def test_a_condition_between_processes(seen: Observer) -> None:
    condition = multiprocessing.Condition()
    with condition:
        assert seen.during(condition.wait, 0.001) == [Kind.LOCK]
        assert seen.during(condition.wait, 0) == []


def test_a_process_is_awaited(seen: Observer) -> None:
    context = multiprocessing.get_context("spawn")
    event = context.Event()
    process = context.Process(target=event.wait)
    process.start()
    seen.ends.clear()
    assert seen.during(process.join, 0.001) == [Kind.SELECT]
    seen.meanwhile = event.set
    assert seen.during(process.join) == [Kind.PROCESS]


def test_calls_that_end_without_probes_take_no_place() -> None:
    patches = Patches({"multiprocessing.pool": processes.place_multiprocessing})
    with multiprocessing.pool.ThreadPool(1) as pool:
        processes._pools[pool] = processes._Pool(resource_of(pool, "processes", processes._multiprocessing))
        patches.install()
        patches.uninstall()
        assert pool not in processes._pools


def test_what_the_end_of_a_call_raises_does_not_end_the_pools_thread() -> None:
    patches = Patches({"multiprocessing.pool": processes.place_multiprocessing})
    with multiprocessing.pool.ThreadPool(1) as pool:
        patches.install()
        goes = threading.Event()
        result = pool.apply_async(goes.wait)
        setattr(result, processes._END, lambda: 1 / 0)
        goes.set()
        assert result.get(20)
        assert pool.apply(abs, (-7,)) == 7
        patches.uninstall()
