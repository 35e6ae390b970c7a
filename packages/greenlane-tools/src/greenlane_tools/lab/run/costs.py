"""How many requests per second of each class make a given share of one core.

    rate of a class = utilisation × its share of the CPU ÷ CPU of one of its jobs
                    = utilisation × its share of the requests ÷ mean CPU of a request, over all classes

The same rates go to every contender: one that needs more CPU for a job is busier at the same load, and that counts
against it.
"""

from __future__ import annotations

from collections.abc import Mapping

from greenlane_tools.lab.scenario.scenario import Level, Scenario

__all__ = ["rates_per_s"]


def rates_per_s(scenario: Scenario, costs_ms: Mapping[str, float], level: Level) -> dict[str, float]:
    """Requests per second by class, at that level and the phase factor 1; classes without a rate are left out.

    Args:
        costs_ms: CPU of one job by class; of those with a share.
    """
    mean_ms = sum(one.request_share_frac * costs_ms[one.name] for one in scenario.classes if one.request_share_frac)
    found = {}
    for one in scenario.classes:
        if one.cpu_share_frac:
            found[one.name] = (level.utilisation_frac or 0) * one.cpu_share_frac * 1000 / costs_ms[one.name]
        elif one.request_share_frac:
            found[one.name] = (level.utilisation_frac or 0) * one.request_share_frac * 1000 / mean_ms
        elif one.rate_per_s:
            found[one.name] = one.rate_per_s * level.rate_factor
    return found
