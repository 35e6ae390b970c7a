"""The place where contenders meet: shared services and every contender's servers, up at the same time."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from greenlane.errors import HostError
from greenlane_tools.lab import processes
from greenlane_tools.lab.interruption import checkpoint
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson
from greenlane_tools.lab.run import work_unit
from greenlane_tools.lab.run.pacing import stream_of
from greenlane_tools.lab.run.server import Process, Server, Site, await_process, copied, reached, started
from greenlane_tools.lab.scenario.parts import Contender
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["Arena", "calibrated", "costs_ms", "one_more", "opened"]


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


# --- What one job of each class costs: load on one contender at a time, its CPU over the answers.
# Run once before the comparison, on this machine and interpreter; a second or so per class.

# Load while one class is measured: under half a core, so that jobs overlap a little, as they will.
_CALIBRATED_FRAC = 0.4
# First jobs of a class, not counted: imports, templates, threads.
_WARM_S = 0.15
# What a server is expected to add to `about_ms`.
_AROUND_MS = 1.0


def calibrated(scenario: Scenario, arena: Arena, say: Callable[[str], None]) -> dict[str, float]:
    """CPU of one job in ms by class, of those with a share, on the contender that the scenario names: the running one,
    or one started for this. Empty when no class has a share."""
    if not scenario.calibrates():
        return {}
    name = scenario.calibrated_on or scenario.contenders[0].name
    say(f"calibrating what one job costs, on {name}")
    if name in arena.servers:
        return costs_ms(scenario, arena.servers[name])
    contender = next(one for one in scenario.contenders if one.name == name)
    with one_more(arena, scenario, contender) as server:
        return costs_ms(scenario, server)


def costs_ms(scenario: Scenario, server: Server) -> dict[str, float]:
    """CPU of one job in ms by class, of those with a share, on a running server.

    Raises:
        HostError: not every request was answered; the message has what the service said.
    """
    found: dict[str, float] = {}
    for one in scenario.classes:
        checkpoint()
        if (one.cpu_share_frac or one.request_share_frac) and not one.same_work_as:
            found[one.name] = _measured_ms(scenario, server, one)
    for one in scenario.classes:
        if one.same_work_as:
            found[one.name] = found[one.same_work_as]
    return found


def _measured_ms(scenario: Scenario, server: Server, one: RequestClass) -> float:
    expected_ms = one.about_ms + _AROUND_MS
    # The amount is held at its mean: what is looked for is what the server adds.
    steady = replace(one, work_cv=0.0)
    stream = stream_of(steady, server.address(one.name), Poisson(_CALIBRATED_FRAC * 1000 / expected_ms), expected_ms)
    generate(Plan("warm", _WARM_S, (stream,)))
    before_ns = processes.cpu_ns(server.pids())
    found = generate(Plan("calibrate", scenario.calibrated_s, (stream,))).samples
    spent_ns = processes.cpu_ns(server.pids()) - before_ns
    done = int(((found.status >= 200) & (found.status < 300)).sum())
    if done < len(found) or not done:
        raise HostError("calibrate", name=one.name, value=f"{done} of {len(found)} answered", rule="all",
                        hint="look at what the service says: " + server.said())  # fmt: skip
    return max(0.001, spent_ns / done / 1e6)
