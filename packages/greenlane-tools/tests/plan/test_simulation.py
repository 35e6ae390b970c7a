"""The typed face of the simulator."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from tests.plan.models import pricing
from tests.plan.profiles import sampled

from greenlane.errors import PlanError
from greenlane_tools.plan.band import MODEL, Band, bands, surely_better
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.route import Step
from greenlane_tools.plan.set_up import present
from greenlane_tools.plan.simulation import SimulationCell, simulate, simulate_cells


def _profile(*steps, per_s=50.0, **route):
    return {"routes": [{"route": "a", "rate_per_s": per_s, "sequences": [{"steps": list(steps)}], **route}]}


def test_shares_and_percentiles_are_read_off_the_same_histogram():
    profile = _profile(deadline_ms=200)
    parts = ((part + 0.5) / 1000 for part in range(1000))
    profile["routes"][0]["sequences"] = [{"steps": [["io", -100 * math.log(part)]]} for part in parts]
    run = simulate(profile, {"host": "asyncio"}, jobs=50_000).routes[0]
    late = math.exp(-2)
    assert run.within_deadline_frac == pytest.approx(1 - late, abs=0.005)
    assert run.within_frac(200) == pytest.approx(run.within_deadline_frac, abs=0.003)
    assert run.percentile_ms(0.5) == pytest.approx(100 * math.log(2), rel=0.03)


@pytest.mark.parametrize(
    ("profile", "set_up", "load", "name"),
    [
        (_profile(["cpu", -1]), {"host": "threads"}, 1, "profile.routes[0].sequences[0].steps[0][1]"),
        (_profile(["cpu", 1]), {"host": "threads", "processes": 0}, 1, "set_up.processes"),
        (_profile(["cpu", 1]), {"host": "threads"}, 0, "load"),
    ],
)
def test_what_cannot_be_simulated_is_named(profile, set_up, load, name):
    with pytest.raises(PlanError) as caught:
        simulate(profile, set_up, load=load)
    assert caught.value.name == name
    assert caught.value.exit_code == 2


def test_cells_come_in_their_order_and_say_how_far_they_are():
    cells = [
        SimulationCell(_profile(["cpu", 10]), {"host": "gevent"}, jobs=200_000, load=load) for load in (0.2, 1.0, 1.8)
    ]
    parts: list[float] = []
    found = simulate_cells(cells, progress=parts.append)
    assert [round(each.cpu_frac, 1) for each in found] == [0.1, 0.5, 0.9]
    assert parts == sorted(parts)
    assert parts[-1] == 1.0


def test_a_cell_that_cannot_be_simulated_ends_the_others():
    long = SimulationCell(_profile(["cpu", 10]), {"host": "gevent"}, jobs=2_000_000_000)
    with pytest.raises(PlanError):
        simulate_cells([long, SimulationCell({}, {"host": "gevent"})], at_once=2)
    assert not [each for each in threading.enumerate() if each.name.startswith("simulate")]


@pytest.mark.slow
def test_ctrl_c_ends_a_run_at_once():
    program = (
        "from greenlane_tools.plan.simulation import SimulationCell, simulate_cells\n"
        "profile = {'routes': [{'route': 'a', 'rate_per_s': 1, 'sequences': [{'steps': [['cpu', 10]]}]}]}\n"
        "print('begins', flush=True)\n"
        "simulate_cells([SimulationCell(profile, {'host': 'gevent'}, jobs=10**11)] * 2)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "begins\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=10)
    finally:
        child.kill()
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in said


# --- Bands: measurements of the very service that was profiled fall in them, and they are wider where less is known.


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
