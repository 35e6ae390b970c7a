"""Calls on a real Ray of this machine: what crosses, who dies, who waits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.lanes.burners import together, until
from tests.placement import work
from tests.placement.cluster import functions
from tests.placement.cluster.lent import Lender
from tests.placement.processes.running import descriptors, is_alive

from greenlane.errors import DeadlineExceeded, PlacementError, WorkerDied
from greenlane.placement import Call, on_loop, on_thread
from greenlane.placement.cluster.executor import RayExecutor
from tests.where import IMPORT_PATH, ROOT

pytestmark = [pytest.mark.system, pytest.mark.slow]

LONGEST_S = 30.0


@pytest.fixture
def executor(cluster: Lender) -> RayExecutor:
    """The one that is kept, with one worker."""
    return cluster.lend().executor


def run(executor: RayExecutor, fn: Callable[..., Any], *args: object, within_s: float = 0) -> Any:
    call = Call(fn, args, deadline_ns=time.monotonic_ns() + int(within_s * 1e9) if within_s else 0)
    on_thread.wait(executor, call)
    return call.result()


def bridge_of(executor: RayExecutor) -> int:
    assert executor.bridge is not None
    return executor.bridge.pid


def test_arrays_lie_in_the_store_there_and_stay_read_only(executor: RayExecutor) -> None:
    for size in (10, 3_000_000):
        array = numpy.arange(size, dtype="float32")
        checksum, writeable, own = run(executor, functions.about, array)
        assert (checksum, writeable, own) == (zlib.crc32(array), False, False)
        back = run(executor, functions.same, array)
        assert numpy.array_equal(back, array)
        assert not back.flags.writeable


def test_whole_arguments_of_bytes_arrive_as_what_they_are(executor: RayExecutor) -> None:
    text = os.urandom(300_000)
    assert run(executor, functions.parsed, text) == ("bytes", 300_000)
    assert run(executor, functions.parsed, memoryview(text)) == ("memoryview", 300_000)
    assert run(executor, functions.same, text) == text
    nested = {"columns": [text, 1, None]}
    assert run(executor, functions.same, nested) == nested


def test_what_cannot_cross_is_refused_by_name_and_harms_nobody(executor: RayExecutor) -> None:
    with pytest.raises(PlacementError, match="lambda"):
        run(executor, lambda: 1)
    with pytest.raises(PlacementError, match="pickled"):
        run(executor, functions.same, sys._getframe())
    with pytest.raises(PlacementError, match="unpicklable"):
        run(executor, functions.unpicklable)
    with pytest.raises(PlacementError, match="no worker itself"):
        run(executor, functions.place_again)
    assert run(executor, functions.same, 1) == 1


def test_a_death_fails_its_own_call_by_name_and_no_call_runs_twice(executor: RayExecutor, tmp_path: Path) -> None:
    before = run(executor, functions.pid)
    dying = Call(functions.once, (tmp_path / "begun",))
    waiting = [Call(functions.same, (number,)) for number in range(3)]
    for call in (dying, *waiting):
        executor.submit(call)
    until(lambda: all(call.state.value in ("finished", "failed") for call in (dying, *waiting)), LONGEST_S)
    with pytest.raises(WorkerDied, match="once on the cluster") as caught:
        dying.result()
    assert caught.value.pid == before
    assert [call.result() for call in waiting] == [0, 1, 2]
    assert (tmp_path / "begun").read_text() == "begun\n"
    assert run(executor, functions.pid) != before


def test_a_killed_worker_is_a_death_too_also_when_it_had_nothing_to_do(executor: RayExecutor) -> None:
    idle = run(executor, functions.pid)
    os.kill(idle, signal.SIGKILL)
    try:
        assert run(executor, functions.pid) != idle
    except WorkerDied as error:  # The call was sent before Ray had noticed: nobody knows what it has done.
        assert error.pid == idle
    assert run(executor, functions.pid) != idle


def test_without_its_bridge_calls_fail_by_name_and_the_next_one_gets_another(
    executor: RayExecutor, tmp_path: Path
) -> None:
    running = Call(work.held, (tmp_path / "begun", tmp_path / "let go"))
    waiting = Call(functions.pid)
    executor.submit(running)
    executor.submit(waiting)
    work.appears(tmp_path / "begun")
    bridge = bridge_of(executor)
    os.kill(bridge, signal.SIGKILL)
    until(lambda: running.state.value == "failed", LONGEST_S)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        running.result()
    (tmp_path / "let go").touch()
    until(lambda: waiting.state.value == "finished", LONGEST_S)
    assert run(executor, functions.same, 1) == 1
    assert bridge_of(executor) != bridge


def test_a_deadline_goes_along_and_ends_the_function_at_its_checkpoint(executor: RayExecutor, tmp_path: Path) -> None:
    for span_ms in work.SPANS_MS:  # On a slow machine it may not have begun when the first ones come.
        with pytest.raises(DeadlineExceeded):
            run(executor, work.until_told, tmp_path / "begun", tmp_path / "met", within_s=span_ms / 1000)
        if (tmp_path / "begun").exists():
            break
    work.appears(tmp_path / "met")
    until(lambda: (tmp_path / "met").read_text() == "DeadlineExceeded", LONGEST_S)
    assert run(executor, functions.same, 1) == 1


def test_on_an_event_loop_nothing_waits_for_a_call_but_its_own_task(executor: RayExecutor) -> None:
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    async def main() -> Any:
        beating = asyncio.create_task(beat())
        calls = [Call(work.burn, (30,)) for _ in range(3)]
        await asyncio.gather(*(on_loop.wait(executor, call, asyncio.get_running_loop()) for call in calls))
        beating.cancel()
        return [call.result() for call in calls]

    assert asyncio.run(main()) == [30, 30, 30]
    assert turns >= 10


GEVENT = """
import gevent.monkey; gevent.monkey.patch_all()
import os, sys, threading
import gevent
from greenlane.placement.cluster.executor import RayExecutor
from greenlane.placement.cluster.options import ClusterOptions
from greenlane.placement import Call, on_hub
from tests.placement.cluster import functions
from tests.placement import work

beats = 0
def beat():
    global beats
    while True:
        gevent.sleep(0.002)
        beats += 1

executor = RayExecutor(ClusterOptions(address=sys.argv[1], workers=1))
def run(fn, *args):
    call = Call(fn, args)
    on_hub.wait(executor, call, gevent.get_hub())
    return call.result()

beating = gevent.spawn(beat)
waiting = [gevent.spawn(run, work.burn, 30) for _ in range(4)]
gevent.joinall(waiting, raise_error=True)
assert beats >= 100, beats  # connecting alone takes a second
killed = gevent.spawn(run, work.burn, 5000)
gevent.sleep(0.1)
killed.kill()
assert executor.stats().cancelled == 1
assert "ray" not in sys.modules
executor.close(0)
print("well")
"""


def test_under_gevent_the_hub_goes_on_from_the_first_connection_to_the_end(cluster: Lender) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", GEVENT, cluster.address],
        env={**os.environ, "PYTHONPATH": IMPORT_PATH}, cwd=ROOT, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


MAIN = """
import sys
from greenlane.placement.cluster.executor import RayExecutor
from greenlane.placement.cluster.options import ClusterOptions
from greenlane.placement import Call, on_thread

class Offer:
    def __init__(self, price):
        self.price = price

def doubled(offer):
    return Offer(offer.price * 2)

if __name__ == "__main__":
    executor = RayExecutor(ClusterOptions(address=sys.argv[1], workers=1))
    call = Call(doubled, (Offer(21),))
    on_thread.wait(executor, call)
    print(call.result().price)
"""


def test_functions_and_classes_of_the_main_module_cross_on_this_machine_and_its_exit_leaves_nothing(
    cluster: Lender, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(MAIN)
    done = subprocess.run(
        [sys.executable, "program.py", cluster.address], env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_workers_start_on_demand_side_by_side_and_idle_ones_are_given_back(cluster: Lender) -> None:
    before = descriptors()
    executor = cluster.make(workers=2, idle_s=0.4)
    assert executor.stats().workers == 0
    meeting = threading.Barrier(2, timeout=LONGEST_S)
    pids: set[int] = set()

    def caller() -> None:
        meeting.wait()
        while len(pids) < 2:
            pids.add(run(executor, _slow_pid))

    together([caller, caller])
    until(lambda: executor.stats().workers == 0, LONGEST_S)
    until(lambda: not any(is_alive(pid) for pid in pids), LONGEST_S)
    assert run(executor, functions.pid) not in pids
    bridge = bridge_of(executor)
    executor.close(1)
    assert not is_alive(bridge)
    until(lambda: set(descriptors().values()) == set(before.values()), LONGEST_S)


def _slow_pid() -> int:
    work.burn(50)
    return os.getpid()


def test_a_cluster_that_does_not_answer_fails_calls_by_name(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_connect_timeout_s", "1")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "1")
    executor = Lender(f"127.0.0.1:{free_port}").make(start_timeout_s=3)
    try:
        with pytest.raises((PlacementError, WorkerDied), match=rf"cluster_address='127\.0\.0\.1:{free_port}'"):
            run(executor, functions.pid, within_s=LONGEST_S)
    finally:
        executor.close(0)
