"""Shares of the CPU by endpoint, besides those of pricing.toml: other loads on the same service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from greenlane_tools.lab.scenario import catalogue, file
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["DEFAULT", "MIXES", "light_frac", "pricing", "with_shares"]

#: The scenario's own: light work is 10 % of the CPU.
DEFAULT: Final = "light10"
#: By endpoint; each adds up to 1. Empty = as the scenario says.
MIXES: Final[Mapping[str, Mapping[str, float]]] = {
    DEFAULT: {},
    # Twice as much light work: priority for it costs the rest more.
    "light20": {
        "bikes": 0.19, "scooters": 0.01, "quote": 0.56, "surge": 0.09,
        "receipt": 0.05, "report": 0.05, "search": 0.05,
    },
    # Two endpoints only: I/O before the CPU in the heavy one.
    "surge": {"bikes": 0.14, "surge": 0.86},
    # Two endpoints only: the classes of the ideal bound.
    "bikes-quote": {"bikes": 0.10, "quote": 0.90},
}  # fmt: skip


def pricing(mix: str = DEFAULT) -> Scenario:
    """The pricing scenario with the shares of a mix. Its name is the mix's, which its seeds begin with."""
    scenario = file.read(catalogue.found("pricing"))
    return replace(with_shares(scenario, MIXES[mix]) if MIXES[mix] else scenario, name=mix)


def with_shares(scenario: Scenario, shares: Mapping[str, float]) -> Scenario:
    """The scenario with these classes alone, at these shares of the CPU."""
    classes = tuple(replace(one, cpu_share_frac=shares[one.name]) for one in scenario.classes if one.name in shares)
    # Whose calibration is not there is calibrated itself.
    classes = tuple(one if one.same_work_as in shares else replace(one, same_work_as="") for one in classes)
    kept = [one for one in scenario.expectations if one.endpoint in shares]
    contenders = tuple(
        replace(one, apart=tuple(name for name in one.apart if name in shares)) for one in scenario.contenders
    )
    return replace(
        scenario,
        classes=classes,
        contenders=contenders,
        expectations=tuple(kept),
        bounds=tuple(one.text for one in kept),
    )


def light_frac(scenario: Scenario) -> float:
    """The share of the CPU that a scenario gives to light classes."""
    return sum(one.cpu_share_frac for one in scenario.classes if one.lane == "light")
