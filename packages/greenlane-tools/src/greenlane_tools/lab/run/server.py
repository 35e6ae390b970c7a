"""A contender that serves: its processes, where each class is answered, what they say."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from greenlane.errors import HostError
from greenlane_tools.lab import processes
from greenlane_tools.lab.processes import Block, Child
from greenlane_tools.lab.scenario.parts import Contender, Fault, Service
from greenlane_tools.lab.scenario.rules import filled, filled_command
from greenlane_tools.lab.scenario.scenario import Scenario

# What a settled server may use of a core: heartbeats, no request.
_IDLE_FRAC: Final = 0.05
_LOOK_S: Final = 0.1
_SAID_LINES: Final = 12
#: Faults that are done in a relay in front of the service.
GATED: Final = ("slow", "refuse")


@dataclass(frozen=True)
class Process:
    """A service that runs."""

    service: Service
    child: Child
    # Where it listens.
    address: str
    # Where others reach it: the same, or the gate in front of it.
    reached: str
    # Its output, and that of others that share it.
    log: IO[bytes]
    gate: Child | None = None

    def end(self) -> None:
        """Ends it and what stands in front of it."""
        if self.gate is not None:
            self.gate.end()
        self.child.end()


class Server(Block):
    """All services of one contender that are not shared: a context manager that starts and ends them.

    Args:
        contender: what differs.
        scenario: what is served.
        site: where.
        number: of its own folder; one for each contender.

    Raises:
        HostError: it did not come up; the message ends with what it said.
    """

    def __init__(self, contender: Contender, scenario: Scenario, site: Site, number: int) -> None:
        self.contender = contender
        self._scenario = scenario
        self._site = site
        self.own = site.own(number)
        self._log = tempfile.TemporaryFile()
        self._processes: list[Process] = []
        self._apart: Process | None = None

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        self._log.close()

    def begin(self) -> None:
        """Starts them, and waits until all can serve."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Starts its processes and does not wait for them: several contenders may import at the same time."""
        values = {**self._site.values(), "own": str(self.own)}
        for service in self._scenario.services:
            if service.shared:
                continue
            one = self._launched(service, values, service.name)
            self._processes.append(one)
            if self.contender.apart and service is self._scenario.service_of(self.contender):
                self._apart = self._launched(service, values, f"{service.name}-apart")
                self._processes.append(self._apart)
            values |= reached(service.name, one)

    def wait_ready(self) -> None:
        """Waits until all of them can serve."""
        for one in self._processes:
            await_process(one, f"contender {self.contender.name}")

    def restart(self) -> None:
        """Ends it and starts it again, on other ports."""
        self.end()
        self.begin()

    def address(self, endpoint: str) -> str:
        """Where this class is served."""
        if self._apart is not None and endpoint in self.contender.apart:
            return self._apart.reached
        return self.process("").reached

    def process(self, service: str) -> Process:
        """The process of a service of its own; "" = the one that the load asks."""
        wanted = self._scenario.service(service)
        return next(one for one in self._processes if one.service is wanted)

    def pids(self) -> list[int]:
        """Every process of it, and their descendants. Gates are no part of it."""
        return [pid for one in self._processes for pid in one.child.pids()]

    def dead(self) -> list[str]:
        """Services whose process has exited."""
        return [one.service.name for one in self._processes if not one.child.running()]

    def settle(self, seconds: float) -> bool:
        """Waits until it has nothing left to do; False when `seconds` pass first."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            before_ns = processes.cpu_ns(self.pids())
            time.sleep(_LOOK_S)
            if processes.cpu_ns(self.pids()) - before_ns < _IDLE_FRAC * _LOOK_S * 1e9:
                return True
        return False

    def said(self) -> str:
        """The last lines of its log."""
        return said(self._log)

    def end(self) -> None:
        """Ends all of it. Idempotent."""
        for one in reversed(self._processes):
            one.end()
        self._processes.clear()
        self._apart = None

    def _launched(self, service: Service, values: dict[str, str], name: str) -> Process:
        changed = service is self._scenario.service_of(self.contender)
        contender = self.contender if changed else None
        return started(service, contender, values, self.own / f"{name}.sock", self._log, self._scenario.faults,
                       self._scenario)  # fmt: skip


def started(
    service: Service, contender: Contender | None, values: dict[str, str], socket: Path, log: IO[bytes],
    faults: Sequence[Fault], scenario: Scenario,
) -> Process:  # fmt: skip
    """Starts one process of a service, with a gate in front when faults need one.

    Args:
        contender: what differs; None = nothing.
        values: what braces stand for, besides its own address.
        socket: where its Unix socket would be.
        log: what it says is appended there.

    Raises:
        HostError: its program cannot be started.
    """
    port = processes.free_port() if service.listen == "tcp" else 0
    address = f"127.0.0.1:{port}" if port else f"{UNIX}{socket}"
    values = {**values, "address": address, "port": str(port), "unix": str(socket)}
    command = (contender.command if contender else ()) or service.command
    env = {**service.env, **(contender.env if contender else {})}
    filled_env = {**child_environment(), **{name: filled(text, values) for name, text in env.items()}}
    argv = filled_command(command, contender.arguments if contender else (), values)
    try:
        child = Child(argv, filled_env, log.fileno(), Path(values["folder"]))
    except OSError as error:
        raise HostError(
            f"start {service.name}", name="command", value=argv[0],
            rule=f"a program that can be run ({error.strerror})", hint="install it, or correct the command",
        ) from None  # fmt: skip
    gated = [one for one in faults if one.kind in GATED and scenario.service(one.service) is service]
    if not gated:
        return Process(service, child, address, address, log)
    front, delay_ms = processes.free_port(), max(one.delay_ms for one in gated)
    gate = Child([sys.executable, "-m", "greenlane_tools.lab.relay", str(front), str(port), str(delay_ms)],
                 child_environment(), log.fileno(), Path(values["folder"]))  # fmt: skip
    return Process(service, child, address, f"127.0.0.1:{front}", log, gate)


def await_process(one: Process, whose: str) -> None:
    """Waits until it can serve. Raises HostError with its last words."""
    gate_there = one.gate is None or wait_ready(one.reached, "", one.gate, one.service.ready_s)
    if gate_there and wait_ready(one.address, one.service.ready, one.child, one.service.ready_s):
        return
    what = f"an answer to {one.service.ready}" if one.service.ready else "a server"
    exited = "" if one.child.running() else "; it exited"
    raise HostError(
        f"start {whose}", name="service", value=one.service.name,
        rule=f"{what} at {one.address} within {one.service.ready_s:g} s{exited}. It said:\n{said(one.log)}",
        hint="repair what it names" + ", or leave it out with --contenders" * (not one.service.shared),
    )  # fmt: skip


def reached(name: str, one: Process) -> dict[str, str]:
    """What braces with a service's name stand for."""
    return {f"{name}.address": one.reached, f"{name}.port": str(port_of(one.reached))}


def said(log: IO[bytes]) -> str:
    """The last lines of a log; "nothing" when it is empty."""
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-_SAID_LINES:]) or "nothing"


# --- Where a service listens: "127.0.0.1:PORT" or "unix:PATH".

UNIX = "unix:"
_ASK_S = 0.02
#: A server that takes longer to answer is asked again.
_ANSWER_S = 30.0


class Connection(http.client.HTTPConnection):
    """HTTP over what `connected` gives."""

    def __init__(self, address: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._address = address

    def connect(self) -> None:
        """http.client's: makes the socket."""
        self.sock = connected(self._address, _ANSWER_S)


def connected(address: str, timeout_s: float) -> socket.socket:
    """A connection. Raises OSError."""
    if not address.startswith(UNIX):
        return socket.create_connection(("127.0.0.1", port_of(address)), timeout=timeout_s)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_s)
        connection.connect(address.removeprefix(UNIX))
    except BaseException:
        connection.close()
        raise
    return connection


def port_of(address: str) -> int:
    """The port; 0 of a Unix socket."""
    return 0 if address.startswith(UNIX) else int(address.rpartition(":")[2])


def status(address: str, path: str) -> int:
    """What a GET is answered with. Raises OSError or http.client.HTTPException."""
    connection = Connection(address)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def wait_ready(address: str, path: str, child: Child, seconds: float) -> bool:
    """Waits until it answers `path` below 500, or accepts connections when that is ""; False = the child exited, or
    `seconds` passed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and child.running():
        with contextlib.suppress(OSError, http.client.HTTPException):
            if path and status(address, path) < 500:
                return True
            if not path:
                connected(address, _ANSWER_S).close()
                return True
        time.sleep(_ASK_S)
    return False


# --- What the services of a run have in common: a folder with their files, and the values that braces stand for.

#: Of what is copied: what an editor or interpreter leaves behind.
_LEFT_BEHIND: Final = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclass(frozen=True)
class Site:
    """Where the services of a run live."""

    folder: Path
    iterations_per_ms: int = 0
    # "NAME.address" and "NAME.port" of shared services.
    shared: Mapping[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, str]:
        """What braces stand for in every command."""
        return {
            "python": sys.executable,
            "folder": str(self.folder),
            "iterations_per_ms": str(self.iterations_per_ms),
            **self.shared,
        }

    def own(self, number: int) -> Path:
        """A folder for the sockets of one contender; made when missing. A socket's path has at most 107 bytes."""
        folder = self.folder / f".{number}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def copied(scenario: Scenario, folder: Path) -> None:
    """Copies the files of all services into the folder, under their own names."""
    for service in scenario.services:
        for name in service.files:
            source = scenario.folder / name
            if source.is_dir():
                shutil.copytree(source, folder, ignore=_LEFT_BEHIND, dirs_exist_ok=True)
            else:
                shutil.copy(source, folder)


def child_environment() -> dict[str, str]:
    """Our own environment for a child that runs in another folder: a relative PYTHONPATH stays what it was."""
    env = dict(os.environ)
    if path := env.get("PYTHONPATH"):
        env["PYTHONPATH"] = os.pathsep.join(str(Path(part).resolve()) for part in path.split(os.pathsep))
    return env
