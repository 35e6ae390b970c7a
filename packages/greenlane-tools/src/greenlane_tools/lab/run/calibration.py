"""What one job of each class costs: load on one contender at a time when it has nothing else, its CPU over the answers.

Run once before the comparison, on this machine and interpreter; a second or so per class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from greenlane.errors import HostError
from greenlane_tools.lab import processes
from greenlane_tools.lab.interruption import checkpoint
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson
from greenlane_tools.lab.run.arena import Arena, one_more
from greenlane_tools.lab.run.pacing import stream_of
from greenlane_tools.lab.run.server import Server
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["calibrated", "costs_ms"]

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
