"""The place where contenders meet: shared services and every contender's servers, up at the same time."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from greenlane.errors import HostError
from greenlane_tools.lab import processes
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.environment import CoreSpeed
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson
from greenlane_tools.lab.run import work_unit
from greenlane_tools.lab.run.contrast import closed_loop, tools
from greenlane_tools.lab.run.faults import Faults
from greenlane_tools.lab.run.pacing import arrivals_of, plan_of, stream_of, warm_up_plan
from greenlane_tools.lab.run.rows import Closed, Run, Turn
from greenlane_tools.lab.run.server import Process, Server, Site, await_process, copied, reached, started
from greenlane_tools.lab.scenario.parts import Contender, RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario

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


# --- One run: the load, its faults, the drain, and what the contender's processes used for it.


Progress = Callable[[int, int], None]


def take(
    scenario: Scenario, turn: Turn, arena: Arena, costs_ms: Mapping[str, float], progress: Progress | None = None
) -> Run:
    """Makes a run.

    Args:
        costs_ms: CPU of one job by class; empty when no class has its rate by a share.
        progress: called with (requests answered, requests in all) now and then.

    Raises:
        HostError: the generator failed.
    """
    server = arena.servers[turn.contender]
    plan = plan_of(scenario, turn, server.address, costs_ms)
    arrivals = arrivals_of(scenario, plan)
    service_ns = {pid: processes.cpu_ns([pid]) for pid in server.pids()}
    family_ns, busy_ns = processes.family_ns(), processes.machine_busy_ns()
    speed = CoreSpeed()
    began_ns, wall_ahead_ns = time.monotonic_ns(), _wall_ahead_ns()
    with Faults(scenario, server, arena.shared) as faults:

        def told(sent: int, over: int) -> None:  # for the first time when the run begins
            faults.begin()
            speed.look()
            if progress is not None:
                progress(sent, over)

        found = generate(plan, arrivals=arrivals, progress=told)
    elapsed_ns = time.monotonic_ns() - began_ns
    pids, dead = server.pids(), tuple(server.dead())
    spent_ns = {pid: processes.cpu_ns([pid]) for pid in pids} | faults.killed_ns
    cpu_ms = sum(spent - service_ns.get(pid, 0) for pid, spent in spent_ns.items()) / 1e6
    others_ns = processes.machine_busy_ns() - busy_ns - (processes.family_ns() - family_ns)
    last_s = float(found.samples.done_ns.max()) / 1e9 if len(found.samples) else 0.0
    contrast = () if dead else _contrast(scenario, turn, server, arena)
    run = Run(
        turn=turn, seconds=plan.seconds, samples=found.samples, cpu_ms=cpu_ms,
        wall_s=max(plan.seconds, last_s), pss_mb=processes.pss_mb(pids), others_cores=others_ns / elapsed_ns,
        lag_p99_ms=found.lag_p99_ms, late=found.warning(), began_ns=found.began_ns,
        loop_ns=speed.loop_ns,
        clock_step_ms=(_wall_ahead_ns() - wall_ahead_ns) / 1e6, faults=faults.done(found.began_ns), dead=dead,
        said=server.said() if dead else "", contrast=contrast,
    )  # fmt: skip
    return run


def settle(scenario: Scenario, run: Run, server: Server) -> None:
    """Leaves a contender as it may meet the next run: at rest, or restarted.

    Raises:
        HostError: restarted, it does not come up.
    """
    if run.dead or (not _all_well(run) and not server.settle(scenario.settle_s)):
        server.restart()


def warm_up(scenario: Scenario, arena: Arena, costs_ms: Mapping[str, float]) -> None:
    """A little of the load for every contender, not kept."""
    for server in arena.servers.values():
        plan = warm_up_plan(scenario, server.address, costs_ms)
        if plan.seconds and plan.streams:
            generate(plan)


def _contrast(scenario: Scenario, turn: Turn, server: Server, arena: Arena) -> tuple[Closed, ...]:
    if turn.repetition >= scenario.contrast.repetitions:
        return ()
    found = []
    for tool in tools(scenario):
        server.settle(scenario.settle_s)
        with Faults(scenario, server, arena.shared) as faults:
            one = closed_loop(tool, scenario, server.address, faults.begin)
        if one is not None:
            found.append(one)
    return tuple(found)


def _all_well(run: Run) -> bool:
    status = run.samples.status
    return bool(((status >= 200) & (status < 300)).all())


def _wall_ahead_ns() -> int:
    return time.time_ns() - time.monotonic_ns()
