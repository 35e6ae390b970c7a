"""CPU per request that Greenlane adds to a service that does nothing, paired and interleaved with stock gthread.

    python -m bench.overhead [--rounds N] [--json]

Three gunicorns serve `hello.py` at once, idle in turns: stock gthread, gthread with the middleware, our worker. In
each round all three get the same open-loop load, in an order that turns round from one to the next; what is compared
is CPU time of the service's processes (their exact clocks) per request, round by round. Open loop and well below
saturation: in a closed loop the faster server would get more requests per wake-up and look cheaper for it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bench.claims import Claim
from bench.summary import claim_line
from greenlane_tools.lab import processes
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson, Stream
from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run.arena import opened
from greenlane_tools.lab.run.rows import answered_well
from greenlane_tools.lab.run.server import Server
from greenlane_tools.lab.scenario.parts import Contender, Service
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.lab.statistics import quantile

Connections = Literal["new", "keep-alive"]
ROUNDS = 20
# Enough requests that a round's mean stands on hundreds; a quarter of a core at most.
_PER_S = 500.0
_SECONDS = 1.5
_HERE = Path(__file__).parent
_STOCK = "gthread-64"
_WORKER = "greenlane"
_MIDDLEWARE = "greenlane-middleware"
_COUNTING = "greenlane-counted"
_COMMAND = (
    "{python}", "-m", "gunicorn", "--workers", "1", "--bind", "{address}", "--log-level", "warning",
    "--no-control-socket", "{arguments}", "hello:application",
)  # fmt: skip
_WRAPPED = tuple("hello_greenlane:application" if part == "hello:application" else part for part in _COMMAND)
_SERVED = ("hello.py", "hello_greenlane.py", "count_intervals.py")


def _scenario() -> Scenario:
    """Hello-world under the pricing demo's own servers."""
    theirs = {one.name: one for one in pricing().contenders}
    stock, worker = theirs[_STOCK].arguments, theirs[_WORKER].arguments
    contenders = (
        Contender(name=_STOCK, arguments=stock),
        Contender(name=_MIDDLEWARE, arguments=stock, command=_WRAPPED),
        Contender(name=_WORKER, arguments=worker),
        Contender(name=_COUNTING, arguments=(*worker, "-c", "count_intervals.py")),
    )
    service = Service(name="hello", command=_COMMAND, files=_SERVED)
    classes = (RequestClass(name="hello", rate_per_s=_PER_S),)
    return Scenario(name="overhead", services=(service,), classes=classes, contenders=contenders, folder=_HERE)


# What the README claims, in µs of CPU a request.
TARGET_US: Mapping[str, float] = {_WORKER: 15.0, _MIDDLEWARE: 30.0}


@dataclass(frozen=True)
class Round:
    """CPU per request of each contender in one round, in µs."""

    connections: Connections
    cpu_us: Mapping[str, float]


def measure(rounds: int, connections: Connections) -> list[Round]:
    """Runs the rounds; about 5 s each."""
    scenario = _scenario()
    with opened(scenario, scenario.chosen((_STOCK, _MIDDLEWARE, _WORKER))) as arena:
        servers = list(arena.servers.values())
        for server in servers:
            _one(server, "warm", connections)
        found = []
        for number in range(rounds):
            turn = servers[number % 3 :] + servers[: number % 3]
            if number % 2:
                turn.reverse()
            found.append(Round(connections, {one.contender.name: _one(one, f"{number}", connections) for one in turn}))
        return found


def interval_changes() -> int:
    """How often our worker called sys.setswitchinterval during 750 requests of which none is heavy."""
    scenario = _scenario()
    with opened(scenario, scenario.chosen((_COUNTING,))) as arena:
        server = arena.servers[_COUNTING]
        _one(server, "warm", "keep-alive")
        before = _interval_calls(server)
        _one(server, "count", "keep-alive")
        return _interval_calls(server) - before


def claims(rounds: Sequence[Round], changes: int) -> list[Claim]:
    """What is claimed of them."""
    found = []
    for connections, said in (("keep-alive", "connections kept"), ("new", "a connection each")):
        some = [one for one in rounds if one.connections == connections]
        for name, target in TARGET_US.items():
            if some:
                stock = statistics.mean(one.cpu_us[_STOCK] for one in some)
                point, low, high = added_us(some, name)
                found.append(
                    Claim("overhead", f"{name}: CPU added to a request, {said}", point, low, high, "≤", target,
                          digits=1, unit=" µs", note=f"stock gthread {stock:.0f} µs")
                )  # fmt: skip
    calls = float(changes)
    found.append(Claim("overhead", "switch-interval changes in 750 light requests", calls, calls, calls, "≤", 0, 0))
    return found


def added_us(rounds: Sequence[Round], name: str) -> tuple[float, float, float]:
    """Mean of the paired differences to stock gthread, with the 95 % bootstrap interval over rounds."""
    differences = [one.cpu_us[name] - one.cpu_us[_STOCK] for one in rounds]
    source = random.Random(1)
    means = sorted(statistics.mean(source.choices(differences, k=len(differences))) for _ in range(2_000))
    return statistics.mean(differences), quantile(means, 0.025), quantile(means, 0.975)


def _one(server: Server, seed: str, connections: Connections) -> float:
    stream = Stream("hello", server.address("hello"), Poisson(_PER_S), connections=connections)
    before_ns = processes.cpu_ns(server.pids())
    samples = generate(Plan(f"overhead/{seed}", _SECONDS, (stream,))).samples
    spent_ns = processes.cpu_ns(server.pids()) - before_ns
    failed = int((~answered_well(samples)).sum())
    if failed:
        raise RuntimeError(f"{server.contender.name}: {failed} of {len(samples)} requests failed; {server.said()}")
    return spent_ns / 1000 / len(samples)


def _interval_calls(server: Server) -> int:
    connection = http.client.HTTPConnection(server.address("hello"), timeout=10)
    try:
        connection.request("GET", "/intervals")
        calls = json.loads(connection.getresponse().read())["calls"]
    finally:
        connection.close()
    assert isinstance(calls, int), "count_intervals.py was not loaded"
    return calls


def main(argv: Sequence[str]) -> int:
    """Measure, and print claims or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    rounds = measure(given.rounds, "keep-alive") + measure(max(2, given.rounds // 2), "new")
    found = claims(rounds, interval_changes())
    if given.json:
        rows = [asdict(claim) for claim in found]
        print(json.dumps({"schema": "greenlane.overhead/1", "rows": rows, "rounds": [asdict(one) for one in rounds]}))
        return 0
    for claim in found:
        print(claim_line(claim))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
