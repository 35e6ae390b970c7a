"""A claim of the proof: a verdict of the lab with the block that it belongs to; statistics of runs."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from greenlane_tools.lab import verdict
from greenlane_tools.lab.pricing import pricing, with_shares
from greenlane_tools.lab.run.arena import costs_ms, opened
from greenlane_tools.lab.run.pacing import rates_per_s
from greenlane_tools.lab.run.rows import ALL, GRACE_S, Row, Run, answered_well, find, in_time
from greenlane_tools.lab.run.runner import expected_s
from greenlane_tools.lab.run.server import child_environment
from greenlane_tools.lab.run.tables import interval
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.catalogue import adapted
from greenlane_tools.lab.scenario.parts import Contender
from greenlane_tools.lab.scenario.scenario import Level, Scenario
from greenlane_tools.lab.statistics import quantile, wilson


@dataclass(frozen=True)
class Claim(verdict.Verdict):
    """One line of the proof."""

    block: str = ""
    digits: int = 3

    def line(self) -> str:
        """As text: measured [interval], target, verdict."""
        note = f"  ({self.remark})" if self.remark else ""
        return f"  {self.text:<66}{self.value():>26}  {self.goal():<9} {self.word}{note}"

    def value(self) -> str:
        """What was measured, with its interval."""
        ends = "" if math.isnan(self.low) else f" [{self.low:.{self.digits}f}, {self.high:.{self.digits}f}]"
        return f"{self.measured:.{self.digits}f}{ends}{self.unit}"

    def goal(self) -> str:
        """What it must reach."""
        return f"{'≤' if self.relation == '<=' else '≥'} {self.target:g}{self.unit}"


Statistic = Callable[[Sequence[Run]], float]


def of_p(share: float, endpoint: str) -> Statistic:
    """A percentile of an endpoint's latency over pooled runs, in ms; NaN without samples."""

    def statistic(runs: Sequence[Run]) -> float:
        found = Samples.joined([run.samples.of(endpoint) for run in runs]).answered()
        return quantile(found, share) if len(found) else math.nan

    return statistic


def done_per_s(runs: Sequence[Run]) -> float:
    """Answers per second of load, a second of grace after it (rows.GRACE_S)."""
    done = sum(
        int((answered_well(run.samples) & (run.samples.done_ns <= (run.seconds + GRACE_S) * 1e9)).sum()) for run in runs
    )
    return done / sum(run.seconds for run in runs)


def share_within(runs: Sequence[Run], endpoint: str, deadline_ms: float) -> tuple[float, float, float]:
    """Share in time with its Wilson interval."""
    samples = Samples.joined([run.samples.of(endpoint) for run in runs])
    hits = in_time(samples, deadline_ms)
    return (hits / len(samples) if len(samples) else 0.0, *wilson(hits, len(samples)))


def ratio(ours: Sequence[Run], theirs: Sequence[Run], statistic: Statistic) -> tuple[float, float, float]:
    """statistic(ours) ÷ statistic(theirs), and its interval; both had the same load in each repetition."""
    mine, other = ({run.turn.repetition: run for run in runs} for runs in (ours, theirs))
    shared = sorted(mine.keys() & other.keys())
    return verdict.ratio([mine[n] for n in shared], [other[n] for n in shared], statistic)


def best(cells: dict[str, list[Run]], names: Sequence[str], statistic: Statistic, lowest: bool = True) -> str:
    """The contender among `names` with the lowest (or highest) value."""
    present = [name for name in names if cells.get(name)]
    return (min if lowest else max)(present, key=lambda name: statistic(cells[name]))


def of_verdicts(block: str, verdicts: Sequence[Mapping[str, Any]], digits: int) -> list[Claim]:
    """What a system's demo has judged itself, as it is stored; there what is not finite has no number."""
    return [
        Claim(
            one["text"], _known(one), *(math.nan if one[end] is None else one[end] for end in ("low", "high")),
            one["relation"], one["target"], one["remark"], one["unit"], block, digits,
        )
        for one in verdicts
    ]  # fmt: skip


def _known(one: Mapping[str, Any]) -> float:
    """Without a number it is as judged."""
    if (at := one["measured"]) is not None:
        return float(at)
    return math.inf if (one["relation"] == "<=") != one["holds"] else -math.inf


# --- What the proof runs, in the order in which a partial run is worth most.


REPETITIONS = 5
# Bikes in a cell, all repetitions together; 2 % more are asked for, since arrivals are random. Only the claim that all
# else rests on has many: the whole proof takes nearly three hours as it is.
BIKES = 3_000
FEWER_BIKES = 1_200
_MORE = 1.02
# What is lost is counted at that.
_TIMEOUT_S = 20.0
_DJANGO = Path(__file__).with_name("django_site")
STOCK = "gthread-64"

_ALL = ("gevent", "gthread-64", "gthread-64-0.5ms", "dedicated", "greenlane")
_ONE_PROCESS = ("gevent", "gthread-64", "gthread-64-0.5ms", "greenlane")
# Where the short interval is no rival: it is the better gthread row for bikes, which are only compared so at 0.9, and
# the worse one for quote.
_LESS_LOAD = ("gthread-64", "dedicated", "greenlane")
# The middleware on stock gthread, as the Django block serves it beside our worker.
MIDDLEWARE = "greenlane-middleware"
DJANGO_MIX = {"bikes": 0.15, "quote": 0.67, "receipt": 0.10, "report": 0.08}
_APP, _DJANGO_APP, _DJANGO_WRAPPED = "pricing:app", "shop.wsgi:application", "shop.wsgi_greenlane:application"


@dataclass(frozen=True)
class Block:
    """One comparison: a mix at one utilisation."""

    name: str
    title: str
    mix: str
    utilisation_frac: float
    contenders: tuple[str, ...] = _ALL
    shares: Mapping[str, float] = field(default_factory=dict)
    django: bool = False
    bikes: int = FEWER_BIKES

    def scenario(self, costs: Mapping[str, float], seed: int, quick: bool) -> Scenario:
        """Its runs.

        Args:
            costs: CPU of one job in ms by class.
            quick: 4 s once, to see whether it works.
        """
        scenario = _served(self)
        level = Level(self.utilisation_frac)
        run_seconds = 4.0
        if not quick:
            bikes_per_s = rates_per_s(scenario, costs, level)["bikes"]
            run_seconds = math.ceil(self.bikes * _MORE / REPETITIONS / bikes_per_s)
        repetitions = 1 if quick else REPETITIONS
        return adapted(
            replace(scenario, warm_s=2 * scenario.warm_s), seconds=run_seconds * repetitions, repetitions=repetitions,
            seed=seed, utilisations_frac=(self.utilisation_frac,),
        )  # fmt: skip

    def heavy(self) -> str:
        """The class with the largest share besides bikes."""
        shares = {one.name: one.cpu_share_frac for one in _served(self).classes if one.name != "bikes"}
        return max(shares, key=lambda name: shares[name])

    def expected_s(self, costs: Mapping[str, float], quick: bool) -> float:
        """How long it takes."""
        return expected_s(self.scenario(costs, 0, quick), self.contenders)


BLOCKS: tuple[Block, ...] = (
    Block("offers-0.9", "the demo's mix at 0.9 of one worker", "light10", 0.9, bikes=BIKES),
    Block("surge", "I/O before the CPU, endpoints unchanged", "surge", 0.85, _ONE_PROCESS),
    Block("light20", "twice as much light work, at 0.9", "light20", 0.9, ("gevent", "gthread-64", "greenlane")),
    Block("django", "a Django project: ORM and templates", "django", 0.9,
          ("gevent", "gthread-64", "greenlane", MIDDLEWARE), DJANGO_MIX, django=True),
    Block("offers-0.8", "the demo's mix at 0.8", "light10", 0.8, _LESS_LOAD),
    Block("offers-0.6", "the demo's mix at 0.6", "light10", 0.6, _LESS_LOAD),
)  # fmt: skip


def calibrated(django: bool, iterations_per_ms: int, seconds: float) -> dict[str, float]:
    """CPU of one job in ms by class on stock gthread, of all classes of that application."""
    mix, shares = ("django", DJANGO_MIX) if django else ("light10", {})
    block = Block("calibration", "", mix, 0.5, (STOCK,), shares, django)
    scenario = replace(_served(block), calibrated_s=seconds)
    with opened(scenario, scenario.chosen((STOCK,)), iterations_per_ms) as arena:
        return costs_ms(scenario, arena.servers[STOCK])


def checkout() -> Path:
    """The folder that `python -m bench.prove` runs in."""
    return Path(os.path.dirname(__file__)).parent


def raw(quick: bool) -> Path:
    """The folder of raw samples, which are kept."""
    return checkout() / "bench" / "results" / ("raw-quick" if quick else "raw")


def _served(block: Block) -> Scenario:
    scenario = _on_django(pricing()) if block.django else pricing()
    shares = block.shares or {one.name: one.cpu_share_frac for one in pricing(block.mix).classes}
    scenario = with_shares(scenario, shares)
    classes = tuple(replace(one, timeout_s=_TIMEOUT_S) for one in scenario.classes)
    return replace(scenario, name=block.mix, classes=classes, bounds=(), expectations=())


def _on_django(scenario: Scenario) -> Scenario:
    """The same endpoints in a Django project."""
    target = scenario.target()
    command = tuple(_DJANGO_APP if part == _APP else part for part in target.command)
    env = {**target.env, "SHOP_DATABASE": "{folder}/shop.sqlite3", "PYTHONDONTWRITEBYTECODE": "1"}
    project = replace(target, command=command, env=env, files=(str(_DJANGO), str(_database())))
    services = tuple(project if one is target else one for one in scenario.services)
    stock = next(one for one in scenario.contenders if one.name == STOCK)
    wrapped = tuple(_DJANGO_WRAPPED if part == _DJANGO_APP else part for part in command)
    middleware: Contender = replace(stock, name=MIDDLEWARE, command=wrapped)
    return replace(scenario, services=services, contenders=(*scenario.contenders, middleware), work="")


def _database() -> Path:
    """A folder with Django's database, filled; made when it is missing."""
    folder = checkout() / "out" / "prove" / "django"
    if not (folder / "shop.sqlite3").exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "filling.sqlite3"
        part.unlink(missing_ok=True)
        env = {**child_environment(), "SHOP_DATABASE": str(part), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "manage.py", "fill"], cwd=_DJANGO, env=env, check=True)
        part.replace(folder / "shop.sqlite3")
    return folder


# --- What remains of a proof: the tables of results/summary.md; all its rows in results/raw/summary.json, outside
# git.


def write(
    folder: Path,
    environment: Mapping[str, object],
    blocks: Sequence[tuple[Block, Sequence[Row]]],
    claims: Sequence[Claim],
) -> None:
    """Writes both files."""
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    document = {
        "schema": "greenlane.prove/1",
        "environment": environment,
        "rows": [{"block": block.name, "mix": block.mix, **asdict(row)} for block, rows in blocks for row in rows],
        "claims": [{**asdict(claim), "verdict": claim.word} for claim in claims],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    (folder / "raw" / "summary.json").write_text(text, encoding="utf-8")
    (folder / "summary.md").write_text(markdown(environment, blocks, claims), encoding="utf-8")


def markdown(
    environment: Mapping[str, object], blocks: Sequence[tuple[Block, Sequence[Row]]], claims: Sequence[Claim]
) -> str:
    """The tables, for the README and for reading."""
    versions = environment.get("versions")
    shown = ", ".join(f"{name} {version}" for name, version in versions.items()) if isinstance(versions, dict) else ""
    lines = [
        "# What was measured",
        "",
        f"`make prove` on {environment.get('cores')} cores ({environment.get('processor')}), Linux "
        f"{environment.get('kernel')}, CPython {environment.get('python')}; {shown}. One worker each, open-loop "
        "Poisson load timed from the scheduled send, contenders interleaved, the same seeds.",
        "",
        "| claim | measured [95 % interval] | target | verdict |",
        "|---|---|---|---|",
    ]
    for claim in claims:
        note = f" ({claim.remark})" if claim.remark else ""
        lines.append(f"| {claim.block}: {claim.text}{note} | {claim.value()} | {claim.goal()} | {claim.word} |")
    for block, rows in blocks:
        lines += ["", f"## {block.title} (`--only {block.name}`)", "", *_block_lines(block, rows)]
    return "\n".join(lines) + "\n"


def _block_lines(block: Block, rows: Sequence[Row]) -> list[str]:
    heavy = block.heavy()
    lines = [
        f"| contender | bikes within 500 ms | bikes p50 / p99 ms | {heavy} p50 / p99 ms | done/s | CPU | CPU ms/job "
        "| PSS MB | errors |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for total in (row for row in rows if row.endpoint == ALL):
        bikes = find(rows, total.contender, "bikes", total.level)
        other = find(rows, total.contender, heavy, total.level)
        lines.append(
            f"| {total.contender} | {interval(bikes)} | {_pair(bikes)} | {_pair(other)} | {total.done_per_s:.1f} "
            f"| {total.cpu_utilisation_frac:.2f} | {total.cpu_ms_per_job:.2f} | {total.pss_mb:.0f} "
            f"| {total.errors + total.lost} |"
        )
    return lines


def _pair(row: Row | None) -> str:
    return "-" if row is None or row.p99_ms is None or row.p50_ms is None else f"{row.p50_ms:.0f} / {row.p99_ms:.0f}"
