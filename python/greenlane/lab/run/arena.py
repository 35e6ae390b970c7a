"""The place where contenders meet: shared services and every contender's servers, up at the same time."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from greenlane.errors import HostError
from greenlane.lab.run import work_unit
from greenlane.lab.run.server import Process, Server, await_process, reached, said, started
from greenlane.lab.run.site import Site, copied
from greenlane.lab.scenario.contender import Contender
from greenlane.lab.scenario.scenario import Scenario

__all__ = ["Arena", "one_more", "opened"]

# Short: Unix sockets lie below it.
_PREFIX: Final = "gl-lab-"


@dataclass(frozen=True)
class Arena:
    """Everything that runs."""

    # Those that came up.
    servers: Mapping[str, Server]
    # Shared services.
    shared: Mapping[str, Process]
    site: Site
    # What shared services say.
    shared_log: IO[bytes]
    # Contenders that did not come up, and why.
    absent: Mapping[str, HostError]

    def check_shared(self) -> None:
        """All shared services still run. Raises HostError with the last words: what was measured since is of no use."""
        for name, process in self.shared.items():
            if not process.child.running():
                raise HostError(
                    f"go on without the shared service {name}", name="service", value=name,
                    rule=f"a process that runs until the end; it exited. It said:\n{said(self.shared_log)}",
                    hint="repair what it names; finished runs are kept, the same command goes on",
                )  # fmt: skip


@contextlib.contextmanager
def opened(
    scenario: Scenario,
    contenders: Sequence[Contender],
    iterations_per_ms: int = 0,
    work_rounds: int = work_unit.ROUNDS,
) -> Iterator[Arena]:
    """Starts shared services and all contenders, and ends them whatever happens.

    Args:
        contenders: those that take part.
        iterations_per_ms: of `scenario.work`, measured before; 0 = it is measured now.
        work_rounds: how often.

    Raises:
        HostError: a shared service or every contender did not come up.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX)))
        copied(scenario, folder)
        if scenario.work and not iterations_per_ms:
            iterations_per_ms = work_unit.iterations_per_ms(scenario.work, folder, work_rounds)
        site = Site(folder, iterations_per_ms)
        log = stack.enter_context(tempfile.TemporaryFile())
        shared = stack.enter_context(_shared(scenario, site, log))
        addresses: dict[str, str] = {}
        for name, process in shared.items():
            addresses |= reached(name, process)
        site = replace(site, shared=addresses)
        servers = {one.name: Server(one, scenario, site, number) for number, one in enumerate(contenders)}
        absent = _launched(servers, stack)
        absent |= _awaited({name: one for name, one in servers.items() if name not in absent})
        if absent and len(absent) == len(servers):
            raise next(iter(absent.values()))
        yield Arena({name: one for name, one in servers.items() if name not in absent}, shared, site, log, absent)


def one_more(arena: Arena, scenario: Scenario, contender: Contender) -> Server:
    """A server of a contender that does not take part, for its calibration."""
    return Server(contender, scenario, arena.site, len(arena.servers) + len(arena.absent))


def _launched(servers: Mapping[str, Server], stack: contextlib.ExitStack) -> dict[str, HostError]:
    absent = {}
    for name, server in servers.items():
        stack.push(server)
        try:
            server.launch()
        except HostError as error:
            absent[name] = error
            server.end()
    return absent


def _awaited(servers: Mapping[str, Server]) -> dict[str, HostError]:
    absent = {}
    for name, server in servers.items():
        try:
            server.wait_ready()
        except HostError as error:
            absent[name] = error
            server.end()
    return absent


@contextlib.contextmanager
def _shared(scenario: Scenario, site: Site, log: IO[bytes]) -> Iterator[dict[str, Process]]:
    running: dict[str, Process] = {}
    values = {**site.values(), "own": str(site.folder)}
    try:
        for service in (one for one in scenario.services if one.shared):
            socket = site.folder / f"{service.name}.sock"
            running[service.name] = started(service, None, values, socket, log, scenario.faults, scenario)
            values |= reached(service.name, running[service.name])
        for process in running.values():
            await_process(process, f"the shared service {process.service.name}", log)
        yield running
    finally:
        for process in reversed(running.values()):
            process.end()
