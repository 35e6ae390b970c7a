"""One run: the load, its faults, the drain, and what the contender's processes used for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from greenlane_tools.lab import processes
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.run.arena import Arena
from greenlane_tools.lab.run.contrast import closed_loop, tools
from greenlane_tools.lab.run.faults import Faults
from greenlane_tools.lab.run.pacing import arrivals_of, plan_of, warm_up_plan
from greenlane_tools.lab.run.performed import Closed, Run, Turn
from greenlane_tools.lab.run.server import Server
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.lab.speed import CoreSpeed

__all__ = ["settle", "take", "warm_up"]

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
