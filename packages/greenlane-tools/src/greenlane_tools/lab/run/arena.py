"""The place where contenders meet: shared services and every contender's servers, up at the same time."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from greenlane.errors import HostError
from greenlane_tools.lab.run import work_unit
from greenlane_tools.lab.run.server import Process, Server, await_process, reached, started
from greenlane_tools.lab.run.site import Site, copied
from greenlane_tools.lab.scenario.contender import Contender
from greenlane_tools.lab.scenario.scenario import Scenario

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
    # Contenders that did not come up, and why.
    absent: Mapping[str, HostError]


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
        shared = stack.enter_context(_shared(scenario, site))
        addresses: dict[str, str] = {}
        for name, process in shared.items():
            addresses |= reached(name, process)
        site = replace(site, shared=addresses)
        servers = {one.name: Server(one, scenario, site, number) for number, one in enumerate(contenders)}
        for server in servers.values():
            stack.push(server)
        absent = _started(servers)
        if absent and len(absent) == len(servers):
            raise next(iter(absent.values()))
        yield Arena({name: one for name, one in servers.items() if name not in absent}, shared, site, absent)


def one_more(arena: Arena, scenario: Scenario, contender: Contender) -> Server:
    """A server of a contender that does not take part, for its calibration."""
    return Server(contender, scenario, arena.site, len(arena.servers) + len(arena.absent))


def _started(servers: Mapping[str, Server]) -> dict[str, HostError]:
    """Launches all, then waits for each; gives those that did not come up, ended, with the reason."""
    absent: dict[str, HostError] = {}
    for step in (Server.launch, Server.wait_ready):
        for name, server in servers.items():
            try:
                if name not in absent:
                    step(server)
            except HostError as error:
                absent[name] = error
                server.end()
    return absent


@contextlib.contextmanager
def _shared(scenario: Scenario, site: Site) -> Iterator[dict[str, Process]]:
    running: dict[str, Process] = {}
    values = {**site.values(), "own": str(site.folder)}
    with tempfile.TemporaryFile() as log:
        try:
            for service in (one for one in scenario.services if one.shared):
                socket = site.folder / f"{service.name}.sock"
                running[service.name] = started(service, None, values, socket, log, scenario.faults, scenario)
                values |= reached(service.name, running[service.name])
            for process in running.values():
                await_process(process, f"the shared service {process.service.name}")
            yield running
        finally:
            for process in reversed(running.values()):
                process.end()
