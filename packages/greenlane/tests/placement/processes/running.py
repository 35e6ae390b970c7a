"""Executors for tests, and calls that are waited for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from greenlane.placement import Call
from greenlane.placement.processes.executor import ProcessExecutor

#: No test waits longer for a process.
LONGEST_S = 30.0


def submitted(executor: ProcessExecutor, fn: Callable[..., Any], *args: object, within_s: float = 0) -> Call:
    deadline_ns = time.monotonic_ns() + int(within_s * 1e9) if within_s else 0
    call = Call(fn, args, deadline_ns=deadline_ns)
    executor.submit(call)
    return call


def ended(call: Call) -> Any:
    """Its result, or what it raised."""
    done = threading.Event()
    call.add_done_callback(lambda _: done.set())
    assert done.wait(LONGEST_S), f"{call.fn} has not ended"
    return call.result()


def run(executor: ProcessExecutor, fn: Callable[..., Any], *args: object) -> Any:
    return ended(submitted(executor, fn, *args))


def appears(path: Path) -> None:
    until = time.monotonic() + LONGEST_S
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} did not appear"
        time.sleep(0.002)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descriptors() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:  # that of the listing itself
            continue
    return found


def mappings() -> list[str]:
    """Our memory files that this process has mapped."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:greenlane" in line]
