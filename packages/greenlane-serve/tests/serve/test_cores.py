"""What processes got of the cores: shares between two looks, by our clock; and read from the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from greenlane_serve.measured import Cores, CoreTimes, core_times_of


class Machine:
    """Processes that got so much, and a clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.got: dict[int, CoreTimes] = {}

    def cores(self) -> Cores:
        return Cores(lambda pid: self.got.get(pid), lambda: self.now_s)


def test_shares_are_of_the_time_since_the_last_look_at_that_process() -> None:
    machine = Machine()
    cores = machine.cores()
    machine.got = {1: CoreTimes(5e9, 1e9), 2: CoreTimes(0, 0)}
    assert cores.take([1, 2]) == {}, "nobody knows how long that took"
    machine.now_s += 2
    machine.got = {1: CoreTimes(5.5e9, 4e9), 2: CoreTimes(1e9, 0)}
    assert cores.take([1]) == {1: CoreTimes(0.25, 1.5)}
    machine.now_s += 2
    assert cores.take([1, 2]) == {1: CoreTimes(0, 0), 2: CoreTimes(0.25, 0)}, "2 was last asked about 4 s ago"


def test_threads_that_end_take_their_time_with_them_and_make_no_share_negative() -> None:
    machine = Machine()
    machine.got[1] = CoreTimes(5e9, 1e9)
    cores = machine.cores()
    cores.take([1])
    machine.now_s += 1
    machine.got[1] = CoreTimes(2e9, 1.5e9)
    assert cores.take([1]) == {1: CoreTimes(0, 0.5)}


def test_who_has_ended_is_left_out_and_forgotten() -> None:
    machine = Machine()
    machine.got[1] = CoreTimes(5e9, 1e9)
    cores = machine.cores()
    cores.take([1])
    del machine.got[1]
    machine.now_s += 1000
    assert cores.take([1]) == {}
    machine.got[1] = CoreTimes(9e9, 9e9)
    assert cores.take([1]) == {}, "another process of that number"


def test_the_kernel_tells_what_this_process_ran() -> None:
    before = core_times_of(os.getpid())
    if before is None:
        pytest.skip("this kernel has no schedstat")
    end_ns = time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < end_ns:
        pass
    after = core_times_of(os.getpid())
    assert after is not None
    # The kernel books a thread that runs at its tick: up to some ms late.
    assert after.ran - before.ran >= 10_000_000
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert core_times_of(ended.pid) is None
