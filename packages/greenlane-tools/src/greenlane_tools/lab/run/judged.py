"""A scenario's bounds against what was measured."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.environment import usable_cores
from greenlane_tools.lab.run.pacing import replayed
from greenlane_tools.lab.run.rows import ALL, CLIENT, Row, Run, find
from greenlane_tools.lab.run.tables import subjects, worst
from greenlane_tools.lab.samples import FAILED, UNANSWERED
from greenlane_tools.lab.scenario.parts import RELATIONS, Bound, RequestClass
from greenlane_tools.lab.scenario.scenario import Level, Scenario
from greenlane_tools.lab.statistics import BEYOND, enough
from greenlane_tools.page.quantities import amount, duration


@dataclass(frozen=True)
class Judgement:
    """One bound at one level."""

    bound: str
    # The level's label; "" = there is only one.
    level: str
    # NaN = not measured.
    measured: float
    limit: float
    verdict: Literal["holds", "fails", "not measured"]

    def said(self) -> str:
        """As a line."""
        at = f" at {self.level}" if self.level and f" at {self.level}" not in self.bound else ""
        measured = "" if math.isnan(self.measured) else f"  ({amount(self.measured)} against {amount(self.limit)})"
        return f"{self.verdict:<7} {self.bound}{at}{measured}"


def judged(scenario: Scenario, rows: Sequence[Row]) -> list[Judgement]:
    """Every bound at every level that it speaks of, of contenders that took part and tools that are here."""
    present, stages = {row.contender for row in rows}, {"", *(row.stage for row in rows)}
    return [
        _judgement(scenario, one, level, rows)
        for one in scenario.expectations
        if {one.contender, one.rival or one.contender} <= present and one.tool in stages
        for level in _levels(scenario, one)
    ]


def _levels(scenario: Scenario, bound: Bound) -> list[Level]:
    return [level for level in scenario.levels() if bound.level in ("", level.label)]


def _judgement(scenario: Scenario, bound: Bound, level: Level, rows: Sequence[Row]) -> Judgement:
    measured = _value(rows, bound, bound.contender, level)
    factor = _value(rows, bound, bound.rival, level) if bound.rival else 1.0
    label = level.label if len(scenario.levels()) > 1 else ""
    if measured is None or factor is None:
        return Judgement(bound.text, label, math.nan, math.nan, "not measured")
    limit = bound.number * factor
    holds = RELATIONS[bound.relation](measured, limit)
    return Judgement(bound.text, label, measured, limit, "holds" if holds else "fails")


def _value(rows: Sequence[Row], bound: Bound, contender: str, level: Level) -> float | None:
    row = find(rows, contender, bound.endpoint, level, bound.phase or ALL, bound.tool or CLIENT)
    return None if row is None else getattr(row, bound.field)


# --- What was seen, in a sentence a class, with its uncertainty: the same rule for every winner.


def conclusion(scenario: Scenario, rows: Sequence[Row]) -> str:
    """About the highest level that was run; a clause for each class that tables show and each closed-loop tool."""
    whole = [row for row in rows if row.phase == ALL]
    if not whole:
        return "Nothing was measured."
    level = whole[-1].level
    cell = [row for row in whole if row.level == level]
    clauses = [
        _class(cell, name, scenario.request_class(name).deadline_ms)
        for name in subjects(scenario)
        if any(row.endpoint == name for row in cell)
    ]
    clauses += [_tool(row) for row in cell if row.stage != CLIENT]
    return " ".join(filter(None, [f"{_at(level, scenario)}{'; '.join(clauses)}.", worst(scenario, rows)]))


def _at(level: Level, scenario: Scenario) -> str:
    if level.utilisation_frac is not None:
        return f"At {level.utilisation_frac:g} of one core: "
    return f"At {level.rate_factor:g} × the rate: " if len(scenario.levels()) > 1 else ""


def _class(cell: Sequence[Row], name: str, deadline_ms: float) -> str:
    found = [row for row in cell if row.endpoint == name and row.stage == CLIENT]
    said = ", ".join(f"{row.contender} {_p(row.p50_ms)} / {_p(row.p99_ms)}" for row in found)
    if not deadline_ms:
        return f"{name} p50 / p99 {said}"
    shares = ", ".join(f"{row.contender} {_share(row)}" for row in found)
    return f"{name} p50 / p99 {said}, within {deadline_ms:g} ms {shares}"


def _tool(row: Row) -> str:
    return f"{row.stage} says of {row.contender}'s {row.endpoint} {_p(row.p50_ms)} / {_p(row.p99_ms)}"


def _p(value: float | None) -> str:
    return "-" if value is None else duration(value * 1e6)


def _share(row: Row) -> str:
    if row.within_deadline_frac is None:
        return "-"
    low, high = (row.within_deadline_low_frac or 0) * 100, (row.within_deadline_high_frac or 0) * 100
    return f"{row.within_deadline_frac * 100:.1f} % [{low:.1f}-{high:.1f}]"


# --- What makes a result less than it looks, each with its remedy: a noisy machine, a late generator, too few samples.

# Below this, what others took of the machine does not move percentiles visibly (kernel threads, a shell).
_QUIET_CORES: Final = 0.15
_STEP_MS: Final = 20.0
# The calibrating contender may miss its utilisation by this much of it.
_MISSED_FRAC: Final = 0.15


def remarks(
    scenario: Scenario, runs: Sequence[Run], rows: Sequence[Row], absent: Mapping[str, GreenlaneError] | None = None
) -> list[str]:
    """All that there is to say, the worst first, each once."""
    found = (
        *_absent(absent or {}), *_dead(runs), *_errors(runs), *_late(runs), *_stepped(runs), *_crowded(), *_noise(runs),
        *_missed(scenario, rows), *_few(scenario, rows), *_replayed(scenario),
    )  # fmt: skip
    return list(dict.fromkeys(found))


def disturbed(runs: Sequence[Run]) -> str:
    """A warning when other processes of the machine, or its host, took CPU during the runs; "" = they did not."""
    return next(_noise(runs), "")


def _absent(absent: Mapping[str, GreenlaneError]) -> Iterator[str]:
    for name, error in absent.items():
        yield f"{name} did not take part: {error}"


def _dead(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if run.dead:
            yield (
                f"{', '.join(run.dead)} of {run.turn.contender} exited during {run.turn.label}, and was restarted. "
                f"Its requests count as they went. It said:\n{run.said}"
            )


def _errors(runs: Sequence[Run]) -> Iterator[str]:
    kinds: dict[str, dict[int, int]] = {}
    for run in runs:
        wrong = run.samples.status[(run.samples.status < 200) | (run.samples.status >= 300)]
        for status, count in zip(*np.unique(wrong, return_counts=True), strict=True):
            mine = kinds.setdefault(run.turn.contender, {})
            mine[int(status)] = mine.get(int(status), 0) + int(count)
    for contender, found in kinds.items():
        said = ", ".join(f"{count} {_kind(status)}" for status, count in sorted(found.items()))
        yield f"{contender}: {said}. Percentiles leave errors out; the shares within a deadline count them as missed."


def _kind(status: int) -> str:
    return {FAILED: "refused or reset", UNANSWERED: "given up unanswered"}.get(status, f"answered {status}")


def _late(runs: Sequence[Run]) -> Iterator[str]:
    late = [run for run in runs if run.late]
    if late:
        worst = max(late, key=lambda run: run.lag_p99_ms)
        yield f"In {worst.turn.label} {worst.late} ({len(late)} of {len(runs)} runs; the latencies count the delay)."


def _stepped(runs: Sequence[Run]) -> Iterator[str]:
    steps = [abs(run.clock_step_ms) for run in runs if abs(run.clock_step_ms) > _STEP_MS]
    if steps:
        yield (
            f"The wall clock was set by up to {max(steps):.0f} ms meanwhile. The latencies do not use it; a suspended "
            "machine does the same: run it again if it slept."
        )


def _crowded() -> Iterator[str]:
    if usable_cores() < 2:
        yield "One core only: the load and shared services compete with what is measured. Use a machine with two."


def _noise(runs: Sequence[Run]) -> Iterator[str]:
    cores = sum(run.others_cores for run in runs) / len(runs) if runs else 0.0
    if cores >= _QUIET_CORES:
        yield (
            f"Other processes of this machine took {cores:.1f} cores on average while it ran: what is printed is what "
            "the contenders made of the rest. Run it again on a quiet machine."
        )


def _missed(scenario: Scenario, rows: Sequence[Row]) -> Iterator[str]:
    name = scenario.calibrated_on or scenario.contenders[0].name
    found = []
    for row in rows:
        if (row.contender, row.endpoint, row.phase, row.stage) != (name, ALL, ALL, CLIENT) or scenario.phases:
            continue
        asked, used = row.utilisation_frac, row.cpu_utilisation_frac
        if asked and used is not None and asked < 1 and abs(used - asked) > _MISSED_FRAC * asked:
            found.append(f"{used:.2f} for {asked:g}")
    if found:
        yield (
            f"{name} used another share of a core than was asked for ({', '.join(found)}): the calibration or the run "
            "was disturbed. --fresh measures both again."
        )


def _few(scenario: Scenario, rows: Sequence[Row]) -> Iterator[str]:
    """By the rule of `enough`, whatever made the requests arrive, in the whole run and in each phase that counts."""
    need = enough(0.99)
    uncounted = {phase.name for phase in scenario.phases if not phase.counted}
    fewest: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.endpoint != ALL and row.stage == CLIENT and row.phase not in uncounted and 0 < row.samples < need:
            cell = row.endpoint, row.phase
            fewest[cell] = min(row.samples, fewest.get(cell, need))
    if fewest:
        said = ", ".join(f"{_cell(*cell)} {number}" for cell, number in fewest.items())
        what = "p99" if min(fewest.values()) >= enough(0.5) else "p50 and p99"
        yield (
            f"Rough {what}, fewer than {BEYOND} requests lie beyond it (requests in the smallest cell: {said}): "
            f"{'; '.join(_remedies(scenario, fewest, need))}."
        )


def _cell(name: str, phase: str) -> str:
    return name if phase == ALL else f"{name} in {phase}"


def _remedies(scenario: Scenario, fewest: Mapping[tuple[str, str], int], need: int) -> Iterator[str]:
    names = list(dict.fromkeys(name for name, _ in fewest))
    drawn = [name for name in names if scenario.request_class(name).arrivals in ("poisson", "constant")]
    if first := [name for name in subjects(scenario) if name in drawn] or drawn:
        factor = need / min(number for (name, _), number in fewest.items() if name in first)
        seconds = math.ceil(scenario.run_seconds() * scenario.repetitions * factor)
        yield f"--seconds {seconds} would do for {' and '.join(first)}"
    for name in names:
        if name not in drawn:
            yield _remedy(scenario, scenario.request_class(name), need)


def _remedy(scenario: Scenario, one: RequestClass, need: int) -> str:
    """More bursts, or more of what was recorded: of that there is only so much, and each repetition sends it again."""
    repetitions = scenario.repetitions
    if one.burst_every_s:
        run_s = math.ceil(need / one.burst_size / repetitions) * one.burst_every_s
    else:
        at_ns = replayed(scenario, one).at_ns if one.recorded else (0,) * one.burst_size
        repetitions = max(repetitions, math.ceil(need / len(at_ns)))
        run_s = at_ns[math.ceil(need / repetitions) - 1] / 1e9
    run_s = max(run_s, scenario.run_seconds())
    flags = f"--seconds {math.floor(run_s * repetitions) + 1}"
    return f"{flags}{f' --repetitions {repetitions}' * (repetitions != scenario.repetitions)} would do for {one.name}"


def _replayed(scenario: Scenario) -> Iterator[str]:
    """How exact recorded arrivals are, and how many of them a run has; nothing where it has all of them, exactly."""
    for one in scenario.classes:
        if one.arrivals != "recorded":
            continue
        found, run_s = replayed(scenario, one), scenario.run_seconds()
        within = bisect.bisect_left(found.at_ns, run_s * 1e9)
        if within < len(found.at_ns):
            which = f"{within:,} of {len(found.at_ns):,} arrivals" if within else "no arrival"
            lie = f"they lie from {found.at_ns[0] / 1e9:.4g} to {found.at_ns[-1] / 1e9:.4g} s"
            yield (
                f"{one.name}: {which} in {one.recorded} {'is' if within < 2 else 'are'} within the {run_s:g} s of a "
                f"run; {lie}. --seconds is the time of all repetitions together."
            )
        yield from (f"{one.recorded}: {note}." for note in found.notes)
