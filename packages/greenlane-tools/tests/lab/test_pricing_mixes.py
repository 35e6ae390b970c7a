"""Mixes: shares of endpoints that exist, that add up, and that leave nothing behind that speaks of others."""

from __future__ import annotations

import pytest

from greenlane_tools.lab.pricing import MIXES, light_frac, pricing
from greenlane_tools.lab.run.pacing import rates_per_s
from greenlane_tools.lab.scenario import rules
from greenlane_tools.lab.scenario.scenario import Level

KNOWN = {one.name for one in pricing().classes}


@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_is_a_scenario_that_breaks_no_rule(mix: str) -> None:
    rules.check(pricing(mix), mix, "test")


@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_adds_up_to_one_of_endpoints_that_exist(mix: str) -> None:
    assert sum(one.cpu_share_frac for one in pricing(mix).classes) == pytest.approx(1)
    assert set(MIXES[mix]) <= KNOWN


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("utilisation", [0.6, 0.8, 0.9])
def test_the_rates_of_a_mix_use_exactly_the_utilisation(mix: str, utilisation: float) -> None:
    rates = rates_per_s(pricing(mix), dict.fromkeys(KNOWN, 4.0), Level(utilisation))
    assert sum(rate * 4.0 / 1000 for rate in rates.values()) == pytest.approx(utilisation)


def test_light_work_is_at_most_a_tenth_and_a_fifth_of_the_cpu() -> None:
    assert light_frac(pricing("light10")) == pytest.approx(0.10)
    assert light_frac(pricing("light20")) == pytest.approx(0.20)
