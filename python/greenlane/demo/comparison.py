"""The comparison itself: the same load to one contender after another, interleaved within each repetition."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from greenlane.demo.arena import Arena
from greenlane.demo.calibration import generate
from greenlane.demo.contenders import Server
from greenlane.demo.plan import Plan, Stream
from greenlane.demo.rates import ENDPOINTS, Endpoint, JobCost, rates_per_s
from greenlane.demo.rows import Run
from greenlane.demo.samples import RunKey
from greenlane.lab import processes

# How long a contender may go on with what it was left with before the next one's turn; then it is started anew.
_SETTLE_S: Final = 4.0
# Requests before the first repetition: threads made, templates compiled, bursts learned.
WARM_S: Final = 1.2
_WARM_FRAC: Final = 0.5
# Below this, what others took of the machine does not move percentiles visibly (kernel threads, a shell).
_QUIET_CORES: Final = 0.15


@dataclass(frozen=True)
class Design:
    """What is compared: all contenders × utilisations × repetitions on one mix."""

    mix: str
    # CPU share of each endpoint of that mix.
    shares: Mapping[str, float]
    contenders: tuple[str, ...]
    utilisations_frac: tuple[float, ...]
    repetitions: int
    # Load per run; a cell has `repetitions` of them.
    run_seconds: float
    seed: int
    # After which a request counts as lost, from its scheduled send.
    timeout_s: float = 10.0
    connections: Literal["new", "keep-alive"] = "new"

    def turns(self) -> Iterator[RunKey]:
        """Every run in order: contenders change fastest, so that a drift of the machine meets all alike; who goes
        first changes with the repetition."""
        for repetition in range(self.repetitions):
            for utilisation in self.utilisations_frac:
                first = repetition % len(self.contenders)
                for contender in self.contenders[first:] + self.contenders[:first]:
                    yield RunKey(contender, self.mix, utilisation, repetition)


def streams(
    server: Server,
    mix: Mapping[str, float],
    costs: Mapping[str, JobCost],
    utilisation_frac: float,
    endpoints: Mapping[str, Endpoint] = ENDPOINTS,
) -> tuple[Stream, ...]:
    """The load of a mix, each endpoint at the address where this contender serves it."""
    return tuple(
        Stream(
            name, server.address(name), endpoints[name].path, per_s, costs[name].cpu_ms,
            endpoints[name].work_mean_ms, endpoints[name].work_cv,
        )
        for name, per_s in rates_per_s(mix, costs, utilisation_frac).items()
    )  # fmt: skip


def plan_of(design: Design, key: RunKey, server: Server, costs: Mapping[str, JobCost]) -> Plan:
    """The load of one run: the same for every contender but for the address."""
    seed = f"{design.seed}/{key.mix}/{key.utilisation_frac}/{key.repetition}"
    wanted = streams(server, design.shares, costs, key.utilisation_frac)
    return Plan(seed, design.run_seconds, wanted, design.timeout_s, design.connections)


def warm_up(arena: Arena, shares: Mapping[str, float], costs: Mapping[str, JobCost], seconds: float = WARM_S) -> None:
    """A little of the load for every contender, not kept."""
    for server in arena.servers.values():
        generate(Plan("warm", seconds, streams(server, shares, costs, _WARM_FRAC), timeout_s=5))


def take_turn(key: RunKey, plan: Plan, server: Server) -> Run:
    """One run: load, drain, and what the service's processes used for it."""
    service_ns, family_ns, busy_ns = processes.cpu_ns(server.pids()), processes.family_ns(), processes.machine_busy_ns()
    began_ns = time.monotonic_ns()
    samples = generate(plan)
    elapsed_ns = time.monotonic_ns() - began_ns
    cpu_ms = (processes.cpu_ns(server.pids()) - service_ns) / 1e6
    others_ns = processes.machine_busy_ns() - busy_ns - (processes.family_ns() - family_ns)
    wall_s = max([plan.seconds, *(sample.done_ns / 1e9 for sample in samples)])
    run = Run(key, plan.seconds, samples, cpu_ms, wall_s, processes.pss_mb(server.pids()), others_ns / elapsed_ns)
    if any(sample.status != 200 for sample in samples) and not server.settle(_SETTLE_S):
        server.restart()
    return run


def disturbed(runs: Sequence[Run]) -> str:
    """A warning when other processes of the machine, or its host, took CPU during the runs; "" = they did not."""
    cores = sum(run.others_cores for run in runs) / len(runs) if runs else 0.0
    if cores < _QUIET_CORES:
        return ""
    return (
        f"Other processes of this machine took {cores:.1f} cores on average while it ran: what is printed is what "
        "the contenders made of the rest. Run it again on a quiet machine."
    )


def subjects(mix: Mapping[str, float]) -> Sequence[str]:
    """The endpoints that a table shows: of the light and of the heavy ones that with the largest share."""
    found = []
    for lane in ("light", "heavy"):
        names = [name for name in mix if ENDPOINTS[name].lane == lane]
        if names:
            found.append(max(names, key=lambda name: mix[name]))
    return found
