"""The load of a run: the same for every contender, and phases that stretch time and draw nothing again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.lab.made import PRICING, scenario

from greenlane_tools.lab.load.schedule import schedule
from greenlane_tools.lab.run.pacing import arrivals_of, plan_of, rates_per_s, warm_up_plan
from greenlane_tools.lab.run.rows import Turn, turns
from greenlane_tools.lab.scenario.catalogue import adapted
from greenlane_tools.lab.scenario.parts import Fault, Phase, RequestClass
from greenlane_tools.lab.scenario.scenario import Level

COSTS = {one.name: 4.0 for one in PRICING.classes}
TURN = Turn("server", Level(None), 0)


def nowhere(name: str) -> str:
    return "127.0.0.1:1"


def test_contenders_get_the_same_requests_and_repetitions_others() -> None:
    asked = [Turn("gevent", Level(0.6), 0), Turn("greenlane", Level(0.6), 0), Turn("gevent", Level(0.6), 1)]
    made = [arrivals_of(PRICING, plan_of(PRICING, turn, nowhere, COSTS)).at_ns.tolist() for turn in asked]
    assert made[0] == made[1] != made[2]


def test_contenders_change_fastest_and_take_turns_at_being_first() -> None:
    found = [(turn.contender, turn.level.label, turn.repetition) for turn in turns(PRICING, ["a", "b"])]
    assert found[:4] == [("a", "0.6", 0), ("b", "0.6", 0), ("a", "0.8", 0), ("b", "0.8", 0)]
    assert found[6:8] == [("b", "0.6", 1), ("a", "0.6", 1)]
    assert len({turn.label for turn in turns(PRICING, ["a", "b"])}) == len(found)


def test_a_phase_twice_as_fast_has_twice_the_requests_and_another_seed_is_not_needed() -> None:
    phases = (Phase("before", 20.0), Phase("surge", 10.0, rate_factor=2.0), Phase("after", 20.0))
    phased = scenario(phases=phases)
    made = arrivals_of(phased, plan_of(phased, TURN, nowhere, {})).at_ns / 1e9
    counts = np.histogram(made, [0, 20, 30, 50])[0] / [20, 10, 20]
    assert counts == pytest.approx([100, 200, 100], rel=0.15)
    assert (np.diff(made) >= 0).all() and made[-1] < 50


def test_a_phase_without_load_is_empty_and_what_was_drawn_stays() -> None:
    phases = (Phase("load", 2.0), Phase("pause", 3.0, rate_factor=0.0), Phase("again", 2.0))
    phased = scenario(phases=phases)
    plan = plan_of(phased, TURN, nowhere, {})
    made = arrivals_of(phased, plan).at_ns / 1e9
    assert not ((made > 2.0) & (made < 5.0)).any()
    flat = scenario(seconds=4.0)
    drawn = schedule(plan_of(flat, TURN, nowhere, {})).at_ns / 1e9
    assert np.where(made > 2.0, made - 3.0, made) == pytest.approx(drawn)


def test_rates_by_share_of_the_cpu_and_of_the_requests() -> None:
    costs = {"light": 2.0, "heavy": 50.0}
    by_cpu = scenario(classes=(RequestClass("light", cpu_share_frac=0.1), RequestClass("heavy", cpu_share_frac=0.9)))
    assert rates_per_s(by_cpu, costs, Level(0.5)) == pytest.approx({"light": 25.0, "heavy": 9.0})
    by_count = scenario(
        classes=(RequestClass("light", request_share_frac=0.9), RequestClass("heavy", request_share_frac=0.1))
    )
    rates = rates_per_s(by_count, costs, Level(0.5))
    assert rates["light"] == pytest.approx(9 * rates["heavy"])
    assert sum(rate * costs[name] / 1000 for name, rate in rates.items()) == pytest.approx(0.5)


def test_a_factor_multiplies_said_rates() -> None:
    assert rates_per_s(scenario(), {}, Level(None, 1.5)) == {"probe": 150.0}


def test_warming_up_leaves_bursts_out() -> None:
    mixed = scenario(
        classes=(RequestClass("probe", rate_per_s=10.0), RequestClass("b", arrivals="burst", burst_size=9))
    )
    assert [stream.name for stream in warm_up_plan(mixed, nowhere, {}).streams] == ["probe"]


def test_seconds_are_per_cell_and_stretch_phases_and_the_times_of_faults() -> None:
    phased = scenario(phases=(Phase("a", 2.0), Phase("b", 6.0)), faults=(Fault("stall", 3.0, "b"),), repetitions=2)
    found = adapted(phased, seconds=32.0)
    assert found.run_seconds() == pytest.approx(16.0)
    assert (found.begins_s("b"), found.faults[0].at_s, found.faults[0].seconds) == (4.0, 6.0, 1.0)
    assert adapted(scenario(), seconds=6.0, repetitions=3).run_seconds() == pytest.approx(2.0)


def test_recorded_arrivals_are_replayed_from_a_table_of_the_lab(tmp_path: Path) -> None:
    lines = ["endpoint,scheduled_ns", "probe,5000", "other,6000", "probe,7500", "probe,2000000000"]
    (tmp_path / "before.csv").write_text("\n".join(lines) + "\n")
    again = RequestClass("probe", arrivals="recorded", recorded="before.csv", recorded_route="probe")
    replay = scenario(classes=(again,), folder=tmp_path)
    assert arrivals_of(replay, plan_of(replay, TURN, nowhere, {})).at_ns.tolist() == [0, 2500]
