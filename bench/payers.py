"""What is claimed of every class, beside the demo's mix: no class pays (scenarios of `lab/scenarios`).

Question: in loads that an order of turns may get wrong, which class has the worst p50 or p99 over plain threads?
Expected: none over 1.1 times gthread-64's, nor over what the conservation law asks for. Under 1.3 times what can be
served, for 20 s, requests that wait for upstreams stay in time.

The claim is about the worst class. In overload each heavy class waits with any server: there the claim is the bounds
of the scenario.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bench.claims import Claim, checkout, of_p, of_verdicts, ratio
from bench.claims import raw as raw_of
from greenlane_tools.lab.run import tables
from greenlane_tools.lab.run.judged import Judgement
from greenlane_tools.lab.run.rows import Row, Run
from greenlane_tools.lab.run.runner import expected_s as run_expected_s
from greenlane_tools.lab.run.runner import run_scenario, stored
from greenlane_tools.lab.run.store import digest
from greenlane_tools.lab.run.tables import OURS, laws, paid
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.scenario import catalogue
from greenlane_tools.lab.scenario.catalogue import adapted
from greenlane_tools.lab.scenario.scenario import Level, Scenario

#: By name, in the order in which they run.
SCENARIOS: Final = ("bimodal", "hogs-one", "changing", "ten-calls", "export", "overload")
REPETITIONS: Final = 5
#: Worst ratio that is claimed.
MOST: Final = 1.1
_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_QUICK_S: Final = 4.0
#: Here the scenario's bounds are claimed.
_BOUNDS_ONLY: Final = ("overload",)


def installed() -> None:
    """Nothing beside the checkout is needed."""


def sources() -> str:
    """Of all that its result depends on, sixteen digits."""
    paths = [catalogue.found(name) for name in SCENARIOS]
    services = sorted((checkout() / "lab" / "services").glob("mixes.py"))
    return digest(*(path.read_bytes() for path in (*paths, *services)), str(REPETITIONS).encode())


def expected_s(quick: bool) -> float:
    """How long the runs take on an idle machine."""
    return sum(run_expected_s(one, _contenders(one)) for one in (_scenario(name, quick) for name in SCENARIOS))


def measure(quick: bool, talk: Talk) -> list[dict[str, Any]]:
    """Runs all; gives verdicts as they can be stored."""
    verdicts = []
    for name in SCENARIOS:
        scenario = _scenario(name, quick)
        kept = stored(scenario, raw_of(quick) / "who-pays" / name)
        result = run_scenario(scenario, _contenders(scenario), kept, talk)
        print(f"\n{name}\n{tables.payers_table(scenario, result.rows)}", flush=True)
        if name in _BOUNDS_ONLY:
            verdicts += [_of_bound(name, one) for one in result.judgements]
        else:
            verdicts += worst_of(name, scenario, result.rows, result.runs)
    return verdicts


def worst_of(name: str, scenario: Scenario, rows: Sequence[Row], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A verdict for each load: the class that is worst off against threads, and what the law says beside it.

    The interval is of that class: it does not know that the class was chosen for being the worst.
    """
    found, said = paid(scenario, rows), laws(scenario, rows)
    verdicts = []
    for level in dict.fromkeys(one.level for one in found):
        one = max((each for each in found if each.level == level), key=lambda each: each.to_threads)
        at = f" at {level.label}" if level.utilisation_frac is not None else ""
        law = [each for each in said if each.startswith(f"ideal order at {level.label}:")]
        remark = "; ".join([f"{one.to_best:.2f} of the best stock server's", *law])
        text = f"{name}{at}: worst class over {scenario.calibrated_on} ({one.endpoint} {one.quantile})"
        ours, theirs = (_cell(runs, which, one.level) for which in (OURS, scenario.calibrated_on))
        _, low, high = ratio(ours, theirs, of_p(_SHARES[one.quantile], one.endpoint))
        verdicts.append(_verdict(text, one.to_threads, low, high, "<=", MOST, one.to_threads <= MOST, remark))
    return verdicts


def claims(verdicts: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """What is claimed of them."""
    return of_verdicts("who-pays", verdicts, digits=3)


def _of_bound(name: str, one: Judgement) -> dict[str, Any]:
    relation = "<=" if "<=" in one.bound else ">="
    measured = None if one.measured != one.measured else one.measured
    return _verdict(f"{name}: {one.bound}", measured, None, None, relation, one.limit, one.verdict == "holds", "")


def _cell(runs: Sequence[Run], contender: str, level: Level) -> list[Run]:
    return [run for run in runs if run.turn.contender == contender and run.turn.level == level]


def _verdict(
    text: str, measured: float | None, low: float | None, high: float | None, relation: str, target: float,
    holds: bool, remark: str,
) -> dict[str, Any]:  # fmt: skip
    return {"text": text, "measured": measured, "low": low, "high": high, "relation": relation, "target": target,
            "holds": holds, "unit": "", "remark": remark}  # fmt: skip


def _scenario(name: str, quick: bool) -> Scenario:
    scenario = catalogue.read(catalogue.found(name))
    if quick:
        return adapted(scenario, seconds=_QUICK_S, repetitions=1)
    repetitions = 1 if scenario.phases else REPETITIONS
    run_seconds = scenario.run_seconds()
    return adapted(replace(scenario, repetitions=repetitions), seconds=run_seconds * repetitions)


def _contenders(scenario: Scenario) -> tuple[str, ...]:
    return tuple(one.name for one in scenario.contenders)
