"""Faults, done to real processes at their times while the load runs."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from greenlane_tools.lab import processes
from greenlane_tools.lab.run.server import Process, Server
from greenlane_tools.lab.scenario.parts import Fault
from greenlane_tools.lab.scenario.scenario import Scenario


@dataclass(frozen=True)
class Done:
    """A fault as it happened; ns since the run's start."""

    kind: str
    service: str
    began_ns: int
    ended_ns: int
    # What it was done to: process ids, in words.
    said: str


class Faults:
    """The faults of one run: a context manager that ends them all, whatever happens.

    Args:
        scenario: with its faults.
        server: whose turn it is.
        shared: shared services, by name.
    """

    def __init__(self, scenario: Scenario, server: Server, shared: Mapping[str, Process]) -> None:
        self._scenario = scenario
        self._server = server
        self._shared = shared
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        # As `Done`, on CLOCK_MONOTONIC.
        self._happened: list[Done] = []
        # CPU until then of processes that were killed, by id: nobody can ask them afterwards.
        self.killed_ns: dict[int, int] = {}

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def begin(self) -> None:
        """The run begins now: each fault waits for its own time on a thread. Once; later calls do nothing."""
        if self._threads:
            return
        began_ns = time.monotonic_ns()
        for fault in self._scenario.faults:
            due_ns = began_ns + int((self._scenario.begins_s(fault.phase) + fault.at_s) * 1e9)
            thread = threading.Thread(target=self._one, args=(fault, due_ns), name=fault.kind)
            self._threads.append(thread)
            thread.start()

    def done(self, began_ns: int) -> tuple[Done, ...]:
        """What happened, from this instant (CLOCK_MONOTONIC) on."""
        found = [replace(one, began_ns=one.began_ns - began_ns, ended_ns=one.ended_ns - began_ns)
                 for one in self._happened]  # fmt: skip
        return tuple(sorted(found, key=lambda one: one.began_ns))

    def _one(self, fault: Fault, due_ns: int) -> None:
        if self._stop.wait(max(0.0, (due_ns - time.monotonic_ns()) / 1e9)):
            return
        process = self._process(fault)
        if fault.kind == "kill":
            self.killed_ns |= {pid: processes.cpu_ns([pid]) for pid in _victim(process)}
        at_ns = time.monotonic_ns()
        with _KINDS[fault.kind](process) as said:
            if fault.kind != "kill":
                self._stop.wait(fault.seconds)
        self._happened.append(Done(fault.kind, process.service.name, at_ns, time.monotonic_ns(), said))

    def _process(self, fault: Fault) -> Process:
        service = self._scenario.service(fault.service)
        return self._shared[service.name] if service.shared else self._server.process(service.name)


@contextlib.contextmanager
def _stalled(process: Process) -> Iterator[str]:
    pids = process.child.pids()
    _signal(pids, signal.SIGSTOP)
    try:
        yield f"SIGSTOP to {', '.join(map(str, pids))}"
    finally:
        _signal(pids, signal.SIGCONT)


@contextlib.contextmanager
def _killed(process: Process) -> Iterator[str]:
    chosen = _victim(process)
    _signal(chosen, signal.SIGKILL)
    yield f"SIGKILL to {chosen[0]}" if chosen else "no process was there"


def _victim(process: Process) -> list[int]:
    """The oldest worker; the process that was started where it has none; nobody when it is gone."""
    pids = process.child.pids()
    workers = sorted(pid for pid in pids[1:] if len(processes.descendants(pid)) == 1)
    return (workers or pids)[:1]


@contextlib.contextmanager
def _slow(process: Process) -> Iterator[str]:
    with _gate(process, signal.SIGUSR1, "answers held back") as said:
        yield said


@contextlib.contextmanager
def _refused(process: Process) -> Iterator[str]:
    with _gate(process, signal.SIGUSR2, "connections refused") as said:
        yield said


@contextlib.contextmanager
def _gate(process: Process, number: signal.Signals, said: str) -> Iterator[str]:
    pids = process.gate.pids()[:1] if process.gate is not None else []
    _signal(pids, number)
    try:
        yield f"{said} at {process.reached}"
    finally:
        _signal(pids, signal.SIGHUP)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


_KINDS: Mapping[str, Callable[[Process], contextlib.AbstractContextManager[str]]] = {
    "stall": _stalled,
    "kill": _killed,
    "slow": _slow,
    "refuse": _refused,
}
