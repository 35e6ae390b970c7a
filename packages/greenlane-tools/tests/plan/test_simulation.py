"""The typed face of the simulator, and the simulator against the obvious slow models in Python."""

from __future__ import annotations

import math
import signal
import statistics
import subprocess
import sys
import threading
import time

import pytest

from greenlane.errors import PlanError
from greenlane_tools.plan.simulation import SimulationCell, simulate, simulate_cells
from tests.reference.queueing import Ties, fifo_loop, gevent_loop

_STRANGE = [{"name": "x", "routes": ["b"]}]


def _profile(*steps, per_s=50.0, **route):
    return {"routes": [{"route": "a", "rate_per_s": per_s, "sequences": [{"steps": list(steps)}], **route}]}


def _closed(bursts, waits, clients):
    steps = [["cpu", bursts[0]]]
    for burst, wait in zip(bursts[1:], waits, strict=True):
        steps += [["io", wait], ["cpu", burst]]
    return {"arrivals": {"clients": clients}, **_profile(*steps)}


@pytest.mark.parametrize("clients", [1, 2, 5, 9, 11, 12, 13, 20, 50])
@pytest.mark.parametrize(
    ("set_up", "model"),
    [({"host": "threads", "switch_interval_ms": 1e6}, fifo_loop), ({"host": "gevent"}, gevent_loop)],
)
@pytest.mark.parametrize(("bursts", "waits"), [([15, 15], [330]), ([5, 5, 5, 5, 5, 5], [66] * 5), ([3, 7], [40])])
def test_a_closed_loop_without_variance_does_what_the_slow_model_does(clients, set_up, model, bursts, waits):
    ties = {"ties": Ties.NEW} if model is fifo_loop else {}
    expected = model(bursts, waits, clients, 1500, **ties)
    found = simulate(_closed(bursts, waits, clients), set_up, jobs=1000).routes[0]
    # Both have settled by then; the slow one runs dry at its end.
    settled = expected.arrival_ms[300:-60]
    assert found.mean_ms == pytest.approx(statistics.fmean(settled), rel=0.01)
    assert found.percentile_ms(0.5) == pytest.approx(statistics.median(settled), rel=0.03)


def test_an_estimate_covers_what_theory_says():
    run = simulate(_profile(["cpu", 10, "exponential"], per_s=70), {"host": "gevent"}, jobs=400_000)
    mean, p99 = run.routes[0].mean, run.routes[0].percentile(0.99)
    assert mean.low < 10 / 0.3 < mean.high
    assert p99.low < 10 / 0.3 * math.log(100) < p99.high
    assert mean.high - mean.low < 0.1 * mean.at
    assert run.cpu_frac == pytest.approx(0.7, abs=0.01)
    assert run.done_per_s == pytest.approx(70, rel=0.02)


def test_shares_and_percentiles_are_read_off_the_same_histogram():
    profile = _profile(["io", 100, -1, "exponential"], deadline_ms=200)
    run = simulate(profile, {"host": "asyncio"}, jobs=50_000).routes[0]
    late = math.exp(-2)
    assert run.within_deadline_frac == pytest.approx(1 - late, abs=0.005)
    assert run.within_frac(200) == pytest.approx(run.within_deadline_frac, abs=0.003)
    assert run.within_deadline.low < 1 - late < run.within_deadline.high
    assert run.percentile_ms(0.5) == pytest.approx(100 * math.log(2), rel=0.03)


def test_many_who_want_the_gil_lengthen_the_turns_of_who_holds_a_permit():
    # 250 times a second three calls around four short bursts; 60 ms of CPU five times a second.
    light = [["cpu", 0.4], *[["io", 20], ["cpu", 0.4]] * 3]
    profile = _profile(*light, per_s=250.0)
    profile["routes"].append({"route": "b", "rate_per_s": 5, "sequences": [{"steps": [["cpu", 60]]}]})
    costs = {"door_releases": 6, "call_releases": 5, "switch_us": 5}

    def ran(own_ms):
        run = simulate(profile, {"host": "permits", "costs": costs, "switch_interval_ms": own_ms}, jobs=40_000)
        return run.route("a"), run.route("b")

    # At the permit's own it cannot grow.
    (light_before, heavy_before), (light_grown, heavy_grown) = ran(0.5), ran(5)
    assert heavy_grown.mean_ms < 0.95 * heavy_before.mean_ms
    assert light_before.percentile_ms(0.99) < light_grown.percentile_ms(0.99)
    assert light_grown.percentile_ms(0.5) < 1.3 * light_before.percentile_ms(0.5)


@pytest.mark.parametrize(
    ("profile", "set_up", "name"),
    [
        ({"routes": []}, {"host": "threads"}, "profile.routes"),
        (_profile(["cpu", -1]), {"host": "threads"}, "profile.routes[0].sequences[0].steps[0][1]"),
        (_profile(["cpu", 1]), {"host": "threads", "processes": 0}, "set_up.processes"),
        (
            _profile(["cpu", 1]),
            {"host": "threads", "lanes": [{"name": "x", "routes": ["b"]}]},
            "set_up.lanes[0].routes[0]",
        ),
        (_profile(["cpu", 1]), {}, "set_up.host"),
    ],
)
def test_what_cannot_be_simulated_is_named(profile, set_up, name):
    with pytest.raises(PlanError) as caught:
        simulate(profile, set_up)
    assert caught.value.name == name
    assert caught.value.exit_code == 2


def test_a_load_of_nothing_is_refused():
    with pytest.raises(PlanError, match="load='0'"):
        simulate(_profile(["cpu", 1]), {"host": "threads"}, load=0)


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
