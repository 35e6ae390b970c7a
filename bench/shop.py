"""The scenario `shop`, and what the product makes of each of its routes: their classes, what they pay and gain.

Question: does each route have the same class in identical runs, and does a class pay for permits near a full core?
Expected: the same in all; no p95 or p99 over 1.1 times gthread-64's, what is light has half of it.

Every run has a fresh process, so what is learned is learned again. Runs are added to those in the folder, and all
are pooled: a machine that is quiet for two minutes at a time is enough.

Usage: python -m bench.shop [--utilisation 0.85] [--seconds 20] [--pairs 1] [--same] [--fresh]
       [--contenders gthread-64,greenlane] [--out out/bench/shop]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from greenlane.control import client
from greenlane_tools.cli.top import phases, turns
from greenlane_tools.lab.run.arena import Arena, calibrated, opened, take, warm_up
from greenlane_tools.lab.run.rows import Turn, rotate
from greenlane_tools.lab.samples import keep, read
from greenlane_tools.lab.scenario import catalogue
from greenlane_tools.lab.scenario.catalogue import adapted
from greenlane_tools.lab.scenario.scenario import Level, Scenario

_SHARES = (0.5, 0.95, 0.99)
# Phases that cost less on average say nothing of a route: a response's send.
_LEAST_MS = 1.0


def route_classes(answers: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By route, its phases that cost a millisecond or more: weight, runs, mean burst, part of looks without the GIL."""
    found: dict[str, str] = {}
    for row in phases(answers):
        if float(row["expected_ms"]) >= _LEAST_MS:  # type: ignore[arg-type]
            said = f"{row['weight']} {row['samples']} x {row['expected_ms']} ms {row['released_frac']}"
            found[str(row["route"])] = "; ".join(filter(None, (found.get(str(row["route"])), said)))
    return dict(sorted(found.items()))


def _perform(scenario: Scenario, arena: Arena, turn: Turn, costs_ms: Mapping[str, float], out: Path) -> None:
    """A run of a fresh process, kept with what the process says of itself."""
    arena.servers[turn.contender].restart()
    only = replace(arena, servers={turn.contender: arena.servers[turn.contender]})
    warm_up(scenario, only, costs_ms)
    run = take(scenario, turn, arena, costs_ms)
    pids = arena.servers[turn.contender].pids()
    listening = [one for one in client.processes(os.environ["GREENLANE_CONTROL_DIR"]) if one.pid in pids]
    answers = [client.ask(one.socket, {"do": "show"}) for one in listening]
    number = len(list(out.glob("*.parquet")))
    keep(out / f"{turn.label}.{number}.parquet", turn.key(), run.samples)
    said = {
        "contender": turn.contender, "level": turn.level.label, "cpu_cores": run.cpu_ms / 1000 / run.wall_s,
        "others_cores": run.others_cores, "loop_ns": run.loop_ns, "classes": route_classes(answers),
        "turns": turns(answers),
        "counters": [{name: value for name, value in one["counters"].items() if value} for one in answers],
        "gang": [one.get("gang") for one in answers],
    }  # fmt: skip
    (out / f"{turn.label}.{number}.json").write_text(json.dumps(said))
    print(f"{turn.contender} at {turn.level.label}: {said['cpu_cores']:.2f} of a core, others {run.others_cores:.2f}")
    for route, classes in said["classes"].items():  # type: ignore[attr-defined]
        print(f"    {route:<14} {classes}")
    for row in turns(answers) if turn.contender != "greenlane-observe" else ():
        print(f"    {row['route']:<14} pays {row['pays_ms']} ms, gains {row['gains_ms']} ms")


def pooled(out: Path, names: Sequence[str], calibrated_on: str) -> str:
    """A line a contender, load and class: p50, p95 and p99 in ms over all runs in the folder, and over threads'."""
    parts: dict[tuple[float, str], list[Any]] = {}
    for path in sorted(out.glob("*.parquet")):
        key, samples = read(path)
        parts.setdefault((float(key["utilisation_frac"]), str(key["contender"])), []).append(samples)
    lines = []
    for (load, contender), found in sorted(parts.items()):
        said = [f"{load} {contender}, {len(found)} runs"]
        for name in names:
            mine, theirs = (_latencies(each, name) for each in (found, parts.get((load, calibrated_on), [])))
            cells = [f"{np.quantile(mine, share):7.0f}" for share in _SHARES]
            if len(theirs) and contender != calibrated_on:
                cells += [f"{np.quantile(mine, share) / np.quantile(theirs, share):6.2f}" for share in _SHARES]
            said.append(f"    {name:<8} {len(mine):>5}  {' '.join(cells)}")
        lines.append("\n".join(said))
    return "\n".join(lines)


def _latencies(found: Sequence[Any], name: str) -> Any:
    """In ms, from the scheduled send; what was not answered counts with the time until it was given up."""
    parts = [(one.done_ns - one.scheduled_ns)[one.stream == one.streams.index(name)] for one in found]
    return np.concatenate(parts) / 1e6 if parts else np.array([])


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--utilisation", type=float, default=0.85)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--same", action="store_true", help="the same arrivals in each run")
    parser.add_argument("--fresh", action="store_true", help="forget the runs in the folder")
    parser.add_argument("--contenders", default="gthread-64,greenlane")
    parser.add_argument("--out", type=Path, default=Path("out/bench/shop"))
    options = parser.parse_args()
    if options.fresh:
        shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True, exist_ok=True)
    whole = catalogue.read(catalogue.found("shop"))
    scenario = replace(adapted(whole, seconds=options.seconds, repetitions=1), utilisations_frac=(options.utilisation,))
    names = options.contenders.split(",")
    costs = options.out / "costs.json"
    with tempfile.TemporaryDirectory(prefix="gl-shop-") as control_dir:
        os.environ["GREENLANE_CONTROL_DIR"] = control_dir
        with opened(scenario, scenario.chosen(names)) as arena:
            if not costs.exists():
                costs.write_text(json.dumps(calibrated(scenario, arena, print)))
            costs_ms = json.loads(costs.read_text())
            before = len(list(options.out.glob("*.parquet"))) // len(names)
            for pair in range(before, before + options.pairs):
                for name in rotate(names, pair):
                    turn = Turn(name, Level(options.utilisation, 1.0), 0 if options.same else pair)
                    _perform(scenario, arena, turn, costs_ms, options.out)
    print(", ".join(f"{name} {cost:.1f} ms" for name, cost in costs_ms.items()))
    print(pooled(options.out, [one.name for one in scenario.classes], scenario.calibrated_on))


if __name__ == "__main__":
    main()
