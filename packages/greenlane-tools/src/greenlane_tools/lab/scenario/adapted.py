"""A scenario with other numbers than its file: what flags of a command change."""

from __future__ import annotations

from dataclasses import replace

from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["adapted"]


def adapted(
    scenario: Scenario,
    *,
    seconds: float | None = None,
    repetitions: int | None = None,
    seed: int | None = None,
    utilisations_frac: tuple[float, ...] | None = None,
) -> Scenario:
    """The scenario with these instead; None = as the file says.

    Args:
        seconds: load per cell, over all repetitions. Phases are stretched alike, and the times of faults with them;
            how long a fault lasts stays.
    """
    if repetitions is not None:
        scenario = replace(scenario, repetitions=repetitions)
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    if utilisations_frac is not None:
        scenario = replace(scenario, utilisations_frac=utilisations_frac)
    if seconds is None:
        return scenario
    factor = seconds / scenario.repetitions / scenario.run_seconds()
    return replace(
        scenario,
        seconds=seconds,
        phases=tuple(replace(one, seconds=one.seconds * factor) for one in scenario.phases),
        faults=tuple(replace(one, at_s=one.at_s * factor) for one in scenario.faults),
    )
