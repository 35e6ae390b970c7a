"""Bands: measurements of the very service that was profiled fall in them, and they are wider where less is known."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.plan.models import pricing
from tests.plan.profiles import sampled

from greenlane_tools.plan.band import MODEL, Band, bands, surely_better
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.route import Step
from greenlane_tools.plan.set_up import present
from greenlane_tools.plan.simulation import simulate

GOAL = Goal("GET /x", 0.99, 200)


def _service(requests: int, seed: int) -> Profile:
    def law(chance: random.Random) -> tuple[Step, ...]:
        return Step("cpu", chance.expovariate(1 / 6)), Step("io", 50.0, 0)

    return sampled(law, requests, seed=seed, seconds=requests / 100)


def _band(profile: Profile, goal: Goal = GOAL, **more: float) -> Band:
    return bands(profile, present(profile), [goal], seed=1, **more)[goal.route, goal.limit_ms]  # type: ignore[arg-type]


@pytest.mark.slow
def test_nine_of_ten_measurements_of_the_service_itself_are_in() -> None:
    profile = _service(3000, seed=1)
    band = _band(profile, window_s=60)
    truth = _service(60_000, seed=2)
    runs = (simulate(truth.simulated().to_json(), present(truth).to_json(), jobs=6000, seed=s) for s in range(40))
    inside = sum(band.low_ms <= run.routes[0].percentile_ms(0.99) <= band.high_ms for run in runs)
    assert inside >= 36


def test_a_short_measurement_strays_further_than_a_long_one_and_few_requests_tell_less() -> None:
    def width(band: Band) -> float:
        return band.high_ms / band.low_ms

    many = _service(5000, seed=1)
    assert width(_band(many, window_s=600)) < width(_band(many, window_s=20))
    assert width(_band(many)) >= MODEL**2
    assert width(_band(_service(100, seed=3))) > width(_band(many))


def test_a_model_by_hand_is_not_drawn_again() -> None:
    goal = Goal("GET /bikes", 0.99, 500)
    band = _band(pricing(times=0.2), goal)
    assert 303 / MODEL < band.low_ms < band.high_ms < 450 * MODEL
    assert 0.99 < band.low_within <= band.high_within <= 1


def test_a_machine_whose_speed_was_steady_has_narrower_bands() -> None:
    def width(spread: float | None) -> float:
        band = _band(replace(pricing(times=0.2), loop_spread=spread), Goal("GET /bikes", 0.99, 500))
        return band.high_ms / band.low_ms

    assert width(0.0) < width(None) < width(0.3) / 1.2


def test_a_measurement_whose_cores_were_timed_has_its_band_about_that_speed() -> None:
    goal = Goal("GET /quote/<int:id>", 0.99, 500)

    def band(spread: float, slower: float | None) -> Band:
        return _band(replace(pricing(times=0.2), loop_spread=spread), goal, slower=slower)  # type: ignore[arg-type]

    assert band(0.3, 1.0) == band(0.3, None)
    assert band(0.3, 1.5).low_ms > 1.35 * band(0.3, 1.0).low_ms
    # Where the recording had a steady speed, a loop that was slower for once tells little.
    assert band(0.02, 1.5).low_ms < 1.15 * band(0.02, 1.0).low_ms


def test_what_is_better_by_less_than_the_model_errs_or_in_too_few_draws_is_not_surely_better() -> None:
    def tails(*drawn_ms: float) -> list[Band]:
        return [Band(goal, 0, 0, 0, 0, drawn_ms) for goal in (GOAL, Goal("GET /y", 0.99, 9000))]

    now = tails(*[100.0] * 19)
    better, hardly = 99 / MODEL, 101 / MODEL
    assert surely_better(tails(*[better] * 18, 300), now)
    assert not surely_better(tails(*[better] * 17, hardly, hardly), now)
    # By the goal that is nearest to its limit; and nobody is better than what never ends by not ending either.
    assert not surely_better([tails(*[better] * 19)[1], now[0]], now)
    assert surely_better(now, tails(*[float("inf")] * 19)) and not surely_better(tails(*[float("inf")] * 19), now)
