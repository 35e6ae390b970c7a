"""The typed face of the simulator."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import threading
import time

import pytest

from greenlane.errors import PlanError
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
