"""Rates: utilisation × share ÷ CPU per job, and mixes that add up."""

from __future__ import annotations

import pytest

from greenlane.demo.rates import ENDPOINTS, MIXES, JobCost, light_frac, rates_per_s

COSTS = {name: JobCost(name, 3.0, 1.0) for name in ENDPOINTS}


def test_a_rate_is_utilisation_times_share_over_work_and_overhead() -> None:
    costs = {"bikes": JobCost("bikes", 3.0, 1.0), "quote": JobCost("quote", 40.0, 5.0)}
    rates = rates_per_s({"bikes": 0.1, "quote": 0.9}, costs, 0.9)
    assert rates == pytest.approx({"bikes": 0.9 * 0.1 * 1000 / 4, "quote": 0.9 * 0.9 * 1000 / 45})


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("utilisation", [0.6, 0.8, 0.9])
def test_the_rates_of_a_mix_use_exactly_the_utilisation(mix: str, utilisation: float) -> None:
    rates = rates_per_s(MIXES[mix], COSTS, utilisation)
    assert sum(rate * COSTS[name].cpu_ms / 1000 for name, rate in rates.items()) == pytest.approx(utilisation)


@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_adds_up_to_one_of_endpoints_that_exist(mix: str) -> None:
    assert sum(MIXES[mix].values()) == pytest.approx(1)
    assert set(MIXES[mix]) <= set(ENDPOINTS)


def test_light_work_is_at_most_a_tenth_and_a_fifth_of_the_cpu() -> None:
    assert light_frac(MIXES["light10"]) == pytest.approx(0.10)
    assert light_frac(MIXES["light20"]) == pytest.approx(0.20)
