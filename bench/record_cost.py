"""What `greenlane record` costs the pricing service: CPU per request, beside other tools, paired with stock.

    python -m bench.record_cost [--repetitions 9] [--seconds 6] [--contenders A,B] [--workers gthread-64,gevent]
                                [--quick] [--json] [--no-summary]

The question: how much more CPU does a request cost in all processes of the service when it is recorded? Expected
before the first run: at most 2 % (about 16 ms of CPU a request, 9 blocking calls in an offer, under 1 us each), and
less when switched off.

All services of one worker class run at once, idle in turns. In each repetition every one of them gets the same
requests (the seed is the repetition's) at 0.5 of a core, in an order that turns from one repetition to the next; what
is compared is the exact CPU clock of the service's processes (gunicorn's and the recorder's) over the number of
answers. The ratio is that of the sums, its 95 % interval that of repetitions, in pairs.

What it does not show: latency (the machine's two cores also run the load), uploads (ddtrace has no agent and sends
once a minute), spans' export (OpenTelemetry's go nowhere), nor the reading of what was recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench import rivals
from bench.claims import Claim
from bench.recorded_contenders import RECORD, STOCK, TOOLS, WORKERS, Watched, watched
from greenlane_tools.lab import processes
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson, Stream
from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run import work_unit
from greenlane_tools.lab.run.arena import costs_ms, opened
from greenlane_tools.lab.run.pacing import plan_of
from greenlane_tools.lab.run.rows import Run, Turn, answered_well, pooled
from greenlane_tools.lab.scenario.catalogue import adapted
from greenlane_tools.lab.scenario.scenario import Level, Scenario
from greenlane_tools.lab.verdict import ratio

SCHEMA = "greenlane.record-cost/1"
REPETITIONS = 9
SECONDS = 6.0
UTILISATION_FRAC = 0.5
#: Of the CPU of a request: what the README claims.
MOST_FRAC = 0.02
_WARM_S = 1.5
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Cost:
    """One tool on one worker class: CPU per request over stock's."""

    worker: str
    contender: str
    cpu_ms_per_job: float
    stock_cpu_ms_per_job: float
    cpu_ratio: float
    cpu_ratio_low: float
    cpu_ratio_high: float
    repetitions: int


def cost(worker: str, contender: str, runs: Sequence[Run]) -> Cost:
    """The tool's cost from all runs of that worker class."""
    mine = {run.turn.repetition: _ms_per_job(run) for run in runs if run.turn.contender == contender}
    stock = {run.turn.repetition: _ms_per_job(run) for run in runs if run.turn.contender == STOCK}
    shared = sorted(mine.keys() & stock.keys())
    ours, theirs = [mine[n] for n in shared], [stock[n] for n in shared]
    means = statistics.fmean(ours), statistics.fmean(theirs)
    return Cost(worker, contender, *means, *ratio(ours, theirs, sum), len(shared))


def claims(found: Sequence[Cost]) -> list[Claim]:
    """What is claimed of them: only ours has a target."""
    return [
        Claim(f"{one.worker}: CPU per request recorded ÷ stock", one.cpu_ratio, one.cpu_ratio_low, one.cpu_ratio_high,
              "<=", 1 + MOST_FRAC, f"stock {one.stock_cpu_ms_per_job:.2f} ms", block="record-cost")
        for one in found if one.contender == RECORD
    ]  # fmt: skip


def measure(given: argparse.Namespace, worker: str, rival: Path | None, iterations: int) -> list[Run]:
    """Every run of one worker class."""
    runs: list[Run] = []
    with started(given.contenders, worker, rival, iterations) as (scenario, servers):
        scenario = adapted(scenario, seconds=given.seconds, repetitions=1, utilisations_frac=(UTILISATION_FRAC,))
        found = costs_ms(scenario, servers[0].server)
        for server in servers:
            generate(_plan(adapted(scenario, seconds=_WARM_S), server, found, "warm"))
        for repetition in range(given.repetitions):
            turn = servers[repetition % len(servers) :] + servers[: repetition % len(servers)]
            for server in reversed(turn) if repetition % 2 else turn:
                runs.append(_run(scenario, server, found, repetition))
                _say(
                    f"  {worker:<11}{repetition + 1:>3}  {server.tool.name:<22}{_ms_per_job(runs[-1]):>8.3f} ms/request"
                )
    return runs


@contextlib.contextmanager
def started(
    names: Sequence[str], worker: str, rival: Path | None, iterations: int
) -> Iterator[tuple[Scenario, list[Watched]]]:
    """The upstream and a service for each tool, warmed up by a few requests; all ended whatever happens."""
    scenario = watched(names, worker, rival)
    with opened(scenario, scenario.contenders, iterations) as arena:
        for error in arena.absent.values():
            raise error
        servers = [Watched(TOOLS[name], arena.servers[name]) for name in names]
        for server in servers:
            generate(Plan("first", 0.3, (Stream("bikes", server.server.address("bikes"), Poisson(10.0), "/bikes"),)))
            server.began()
        yield scenario, servers


def iterations_per_ms() -> int:
    """Of the pricing service's work."""
    scenario = pricing()
    return work_unit.iterations_per_ms(scenario.work, scenario.folder)


def _plan(scenario: Scenario, server: Watched, found: dict[str, float], seed: str) -> Plan:
    turn = Turn(server.tool.name, Level(UTILISATION_FRAC), 0)
    return replace(plan_of(scenario, turn, server.server.address, found), seed=f"record-cost/{seed}")


def _run(scenario: Scenario, watched: Watched, found: dict[str, float], repetition: int) -> Run:
    server = watched.server
    server.settle(2.0)
    before_ns, began_s = processes.cpu_ns(server.pids()), time.monotonic()
    samples = generate(_plan(scenario, watched, found, str(repetition))).samples
    cpu_ms = (processes.cpu_ns(server.pids()) - before_ns) / 1e6
    failed = int((~answered_well(samples)).sum())
    if failed:
        raise RuntimeError(f"{watched.tool.name}: {failed} of {len(samples)} requests failed; {server.said()}")
    turn, wall_s = Turn(watched.tool.name, Level(UTILISATION_FRAC), repetition), time.monotonic() - began_s
    return Run(turn, scenario.run_seconds(), samples, cpu_ms, wall_s, processes.pss_mb(server.pids()))


def _ms_per_job(run: Run) -> float:
    return run.cpu_ms / len(run.samples)


def table(found: Sequence[Cost]) -> list[str]:
    """Lines of text."""
    lines = [f"  {'worker':<12}{'contender':<22}{'ms/request':>11}{'÷ stock':>9}   95 %"]
    for one in found:
        interval = f"{one.cpu_ratio_low:.3f}-{one.cpu_ratio_high:.3f}"
        lines.append(
            f"  {one.worker:<12}{one.contender:<22}{one.cpu_ms_per_job:>11.3f}{one.cpu_ratio:>9.3f}   {interval}"
        )
    return lines


def _markdown(document: dict[str, object], found: Sequence[Cost]) -> str:
    environment = document["environment"]
    assert isinstance(environment, dict)
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    lines = [
        "# What the recording costs",
        "",
        f"`python -m bench.record_cost` on {environment['cores']} cores ({environment['processor']}), Linux "
        f"{environment['kernel']}, CPython {environment['python']}; {versions}. The pricing service at "
        f"{UTILISATION_FRAC:g} of a core, {found[0].repetitions} repetitions, contenders interleaved on the same load.",
        "",
        "| worker | contender | CPU ms/request | ÷ stock | 95 % interval |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        lines.append(
            f"| {one.worker} | {one.contender} | {one.cpu_ms_per_job:.3f} | {one.cpu_ratio:.3f} "
            f"| {one.cpu_ratio_low:.3f}-{one.cpu_ratio_high:.3f} |"
        )
    return "\n".join(lines) + "\n"


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.record_cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load, each contender in each repetition")
    parser.add_argument("--contenders", default=",".join(TOOLS), help="stock is always among them")
    parser.add_argument("--workers", default=",".join(WORKERS))
    parser.add_argument("--quick", action="store_true", help="2 repetitions of 1.5 s: whether it works, no measurement")
    parser.add_argument("--rivals", type=Path, default=Path("out/rivals"), help="their environment, made if missing")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-summary", action="store_true", help="leave bench/results/ as it is")
    given = parser.parse_args(argv)
    if given.quick:
        given.repetitions, given.seconds = 2, 1.5
    names = given.contenders.split(",")
    given.contenders = [STOCK, *(name for name in names if name != STOCK)]
    given.workers = given.workers.split(",")
    if unknown := [name for name in given.contenders if name not in TOOLS]:
        parser.error(f"--contenders {unknown[0]}: expected some of {', '.join(TOOLS)}")
    if unknown := [name for name in given.workers if name not in WORKERS]:
        parser.error(f"--workers {unknown[0]}: expected some of {', '.join(WORKERS)}")
    if given.repetitions < 2:
        parser.error("--repetitions: expected 2 or more, an interval needs them")
    return given


def main(argv: Sequence[str]) -> int:
    """Measure, print, keep."""
    given = _parsed(argv)
    rival = rivals.made(given.rivals.absolute()) if any(TOOLS[name].rival for name in given.contenders) else None
    environment = about(("greenlane", *rivals.SHARED))
    versions = environment["versions"]
    assert isinstance(versions, dict)
    versions.update(rivals.versions(rival) if rival else {})
    iterations = iterations_per_ms()
    found: list[Cost] = []
    rows: list[dict[str, object]] = []
    for worker in given.workers:
        runs = measure(given, worker, rival, iterations)
        some = [cost(worker, name, runs) for name in given.contenders]
        by_name = {one.contender: one for one in some}
        found += some
        for row in pooled(pricing(), runs):
            one = by_name[row.contender]
            ratios = {
                "cpu_ratio": one.cpu_ratio,
                "cpu_ratio_low": one.cpu_ratio_low,
                "cpu_ratio_high": one.cpu_ratio_high,
            }
            rows.append({"worker": worker, **asdict(row), **ratios})
    said = claims(found)
    document = {"schema": SCHEMA, "environment": environment, "rows": rows, "costs": [asdict(one) for one in found],
                "claims": [{**asdict(one), "verdict": one.word} for one in said]}  # fmt: skip
    print(json.dumps(document) if given.json else "\n".join([*table(found), *(one.line() for one in said)]))
    if not (given.quick or given.no_summary):
        results = _HERE / "results"
        (results / "raw").mkdir(exist_ok=True)
        (results / "raw" / "record-cost.json").write_text(
            json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        (results / "record-cost.md").write_text(_markdown(document, found), "utf-8")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
