"""Daemon threads at the end of the interpreter: none of our code, or of greenlet's, is unwound."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython's threads hang by themselves"),
]

# An object that the interpreter frees at its very end, when threads that want the GIL are ended: it looks who is left.
LOOKS = """
import os, sys, threading, time
class Looks:
    def __init__(self, ends, stays):
        self.ends, self.stays = ends, stays
        sys.looks = self
    def __del__(self, listed=os.listdir, sleep=time.sleep, clock=time.monotonic, write=os.write):
        there = lambda ids: [str(each) in listed("/proc/self/task") for each in ids]
        until = clock() + 20
        while any(there(self.ends)) and clock() < until:
            sleep(0.001)
        sleep(0.05)
        write(1, f"{there(self.ends)} {there(self.stays)}".encode())
def started(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread.native_id
def turns():
    while True:
        time.sleep(0.001)
"""


def test_a_thread_in_a_greenlet_hangs_and_others_end_as_ever(run_python: Callable[..., object]) -> None:
    pytest.importorskip("greenlet")
    program = (
        LOOKS
        + """
import greenlet
import select
from greenlane import _native
_native.blocking_see(select.select, "not_zero", 3, 3)
inside = [started(lambda: greenlet.greenlet(turns).switch()) for _ in range(3)]
Looks([started(turns)], inside)
time.sleep(0.05)
"""
    )
    assert run_python(program).stdout == "[False] [True, True, True]"  # type: ignore[attr-defined]


def test_a_thread_that_waits_for_a_lock_of_a_job_does_not_abort_the_process(run_python: Callable[..., object]) -> None:
    program = (
        LOOKS
        + """
import _thread
from greenlane import _native
acquire = _thread.LockType.acquire
_native.blocking_see(acquire, "acquires", 5, asks=[acquire])
_native.blocking_report_all(True)
def waits():
    held = threading.Lock()
    held.acquire()
    while True:
        held.acquire(timeout=0.001)
Looks([started(turns)], [started(waits), started(waits)])
time.sleep(0.05)
"""
    )
    assert run_python(program).stdout == "[False] [True, True]"  # type: ignore[attr-defined]


def test_without_threads_the_end_is_guarded_all_the_same(run_python: Callable[..., object]) -> None:
    run_python(
        "from greenlane import _native\nassert _native.guard_endings() >= 1\nassert _native.guard_endings() >= 1"
    )


def test_importing_registers_nothing_and_the_first_probe_does(run_python: Callable[..., object]) -> None:
    program = """
import atexit
before = atexit._ncallbacks()
from greenlane import _native
imported = atexit._ncallbacks()
import time
_native.blocking_see(time.sleep, "always", 4)
used = atexit._ncallbacks()
_native.blocking_see(time.sleep, "always", 4)
print(imported - before, used - before, atexit._ncallbacks() - before)
"""
    assert run_python(program).stdout.split() == ["0", "1", "1"]  # type: ignore[attr-defined]
