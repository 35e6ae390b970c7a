"""CPU per request that Greenlane adds to a service that does nothing, paired and interleaved with stock gthread.

    python -m bench.overhead [--rounds N] [--json]

Three gunicorns serve `hello.py` at once, idle in turns: stock gthread, gthread with the middleware, our worker. In
each round all three get the same open-loop load, in an order that turns round from one to the next; what is compared
is CPU time of the service's processes (their exact clocks) per request, round by round. Open loop and well below
saturation: in a closed loop the faster server would get more requests per wake-up and look cheaper for it.

The middleware is compared with its own process without it (`/bare`): two processes that do the same differ by 5 to 10
µs a request, by where their memory lies.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bench.claims import Claim
from greenlane_tools.lab import processes
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson, Stream
from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run.arena import opened
from greenlane_tools.lab.run.rows import answered_well
from greenlane_tools.lab.run.server import Server
from greenlane_tools.lab.scenario.parts import Contender, RequestClass, Service
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.lab.verdict import difference

Connections = Literal["new", "keep-alive"]
# Short rounds and many: what else the machine does changes by the second.
ROUNDS = 50
# A quarter of a core at most.
_PER_S = 500.0
_SECONDS = 0.6
# After the middleware has come or gone: the interpreter specialises its bytecode again.
_WARM_S = 0.2
_HERE = Path(__file__).parent
_STOCK = "gthread-64"
_WORKER = "greenlane"
_MIDDLEWARE = "greenlane-middleware"
_COUNTING = "greenlane-counted"
_BARE = "the same without the middleware"
_STATES: Mapping[str, str] = {_MIDDLEWARE: "/wrapped", _BARE: "/bare"}
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
TARGET_US: Mapping[str, float] = {_WORKER: 15.0, _MIDDLEWARE: 15.0}
# And of one call of the middleware in a loop, by mode.
CALL_US: Mapping[str, float] = {"on": 3.0, "observe": 3.0, "off": 1.0}
_CALL_PROCESSES = 7
# Around an application that does nothing, in a thread, as servers have them; the least of some loops.
_CALL = """
import threading, time
from hello import application as hello
from hello_greenlane import wrapped

def loop_us(application, calls=20_000):
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
    began_ns = time.thread_time_ns()
    for _ in range(calls):
        application(environ, lambda *_: None)
    return (time.thread_time_ns() - began_ns) / calls / 1000

def run():
    print(min(loop_us(wrapped) for _ in range(7)) - min(loop_us(hello) for _ in range(7)))

thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


@dataclass(frozen=True)
class Round:
    """CPU per request of each contender in one round, in µs."""

    connections: Connections
    cpu_us: Mapping[str, float]


def measure(rounds: int, connections: Connections) -> list[Round]:
    """Runs the rounds; about 3 s each."""
    scenario = _scenario()
    with opened(scenario, scenario.chosen((_STOCK, _MIDDLEWARE, _WORKER))) as arena:
        servers = arena.servers
        cells = {_STOCK: _STOCK, _MIDDLEWARE: _MIDDLEWARE, _BARE: _MIDDLEWARE, _WORKER: _WORKER}
        for server in servers.values():
            _one(server, "warm", connections)
        found = []
        for number in range(rounds):
            turn = list(cells)
            turn = turn[number % len(turn) :] + turn[: number % len(turn)]
            if number % 2:
                turn.reverse()
            cpu_us = {}
            for name in turn:
                server = servers[cells[name]]
                if name in _STATES:
                    _get(server, _STATES[name])
                    _one(server, f"warm {number}", connections, _WARM_S)
                cpu_us[name] = _one(server, f"{number}", connections)
            found.append(Round(connections, cpu_us))
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


def calls_us() -> dict[str, list[float]]:
    """What one call of the middleware takes in a loop, where all that it needs is at hand, in µs by mode.

    Some processes of each mode, in turns: a core's speed halves or doubles within seconds.
    """
    found: dict[str, list[float]] = {mode: [] for mode in CALL_US}
    for mode in [*CALL_US] * _CALL_PROCESSES:
        environ = {**os.environ, "GREENLANE_MODE": mode}
        command = [sys.executable, "-c", _CALL]
        done = subprocess.run(command, cwd=_HERE, env=environ, check=True, capture_output=True, text=True)
        found[mode].append(float(done.stdout))
    return found


def claims(rounds: Sequence[Round], changes: int, calls_us: Mapping[str, Sequence[float]]) -> list[Claim]:
    """What is claimed of them."""
    found = []
    for connections, said in (("keep-alive", "connections kept"), ("new", "a connection each")):
        some = [one for one in rounds if one.connections == connections]
        for name, target in TARGET_US.items():
            if some:
                stock = statistics.mean(one.cpu_us[_STOCK] for one in some)
                point, low, high = added_us(some, name)
                text, remark = f"{name}: CPU added to a request, {said}", f"stock gthread {stock:.0f} µs"
                found.append(Claim(text, point, low, high, "<=", target, remark, " µs", "overhead", 1))
    for mode, us in calls_us.items():
        said = f"one call of the middleware in a loop, mode {mode}"
        middle = statistics.median(us)
        found.append(Claim(said, middle, min(us), max(us), "<=", CALL_US[mode], "", " µs", "overhead", 2))
    text = "switch-interval changes in 750 light requests"
    found.append(Claim(text, changes, math.nan, math.nan, "<=", 0, block="overhead", digits=0))
    return found


def added_us(rounds: Sequence[Round], name: str) -> tuple[float, float, float]:
    """Mean of the paired differences to the same load without us, with its interval over rounds."""
    beside = _BARE if name == _MIDDLEWARE else _STOCK
    return difference([one.cpu_us[name] for one in rounds], [one.cpu_us[beside] for one in rounds], statistics.mean)


def _one(server: Server, seed: str, connections: Connections, seconds: float = _SECONDS) -> float:
    stream = Stream("hello", server.address("hello"), Poisson(_PER_S), connections=connections)
    before_ns = processes.cpu_ns(server.pids())
    samples = generate(Plan(f"overhead/{seed}", seconds, (stream,))).samples
    spent_ns = processes.cpu_ns(server.pids()) - before_ns
    failed = int((~answered_well(samples)).sum())
    if failed:
        raise RuntimeError(f"{server.contender.name}: {failed} of {len(samples)} requests failed; {server.said()}")
    return spent_ns / 1000 / len(samples)


def _interval_calls(server: Server) -> int:
    calls = json.loads(_get(server, "/intervals"))["calls"]
    assert isinstance(calls, int), "count_intervals.py was not loaded"
    return calls


def _get(server: Server, path: str) -> bytes:
    connection = http.client.HTTPConnection(server.address("hello"), timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def main(argv: Sequence[str]) -> int:
    """Measure, and print claims or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    rounds = measure(given.rounds, "keep-alive") + measure(max(2, given.rounds // 2), "new")
    found = claims(rounds, interval_changes(), calls_us())
    if given.json:
        rows = [asdict(claim) for claim in found]
        print(json.dumps({"schema": "greenlane.overhead/1", "rows": rows, "rounds": [asdict(one) for one in rounds]}))
        return 0
    for claim in found:
        print(claim.line())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
