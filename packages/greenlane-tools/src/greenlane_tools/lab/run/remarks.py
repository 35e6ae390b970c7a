"""What makes a result less than it looks, each with its remedy: a noisy machine, a late generator, too few samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.environment import usable_cores
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import ALL, CLIENT, Row
from greenlane_tools.lab.run.tables import subjects
from greenlane_tools.lab.samples import FAILED, UNANSWERED
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["disturbed", "remarks"]

# Below this, what others took of the machine does not move percentiles visibly (kernel threads, a shell).
_QUIET_CORES: Final = 0.15
_STEP_MS: Final = 20.0
# Requests beyond a percentile that it should stand on; arbitrary.
_BEYOND: Final = 5
# The calibrating contender may miss its utilisation by so much of it.
_MISSED_FRAC: Final = 0.15


def remarks(
    scenario: Scenario, runs: Sequence[Run], rows: Sequence[Row], absent: Mapping[str, GreenlaneError] | None = None
) -> list[str]:
    """All that there is to say, the worst first."""
    return [
        *_absent(absent or {}), *_dead(runs), *_errors(runs), *_late(runs), *_stepped(runs), *_crowded(), *_noise(runs),
        *_missed(scenario, rows), *_few(scenario, rows),
    ]  # fmt: skip


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
                f"{', '.join(run.dead)} of {run.turn.contender} exited during {run.turn.label}, and was started anew. "
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
            "was disturbed. --fresh measures both anew."
        )


def _few(scenario: Scenario, rows: Sequence[Row]) -> Iterator[str]:
    need = math.ceil(_BEYOND / 0.01)
    fewest: dict[str, int] = {}
    for row in rows:
        if row.endpoint == ALL or row.phase != ALL or row.stage != CLIENT:
            continue
        if scenario.request_class(row.endpoint).arrivals in ("poisson", "constant") and 0 < row.samples < need:
            fewest[row.endpoint] = min(row.samples, fewest.get(row.endpoint, need))
    if fewest:
        said = ", ".join(f"{name} {count}" for name, count in fewest.items())
        first = [name for name in subjects(scenario) if name in fewest] or list(fewest)
        factor = need / max(min(fewest[name] for name in first), 1)
        seconds = scenario.run_seconds() * scenario.repetitions
        yield (
            f"Rough p99, fewer than {_BEYOND} requests lie beyond it (requests in the smallest cell: {said}): "
            f"--seconds {math.ceil(seconds * factor)} would do for {' and '.join(first)}."
        )
