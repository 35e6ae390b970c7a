"""Predictions for the requests that were sent: which sequence each was, and what the simulator makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.plan.model_file import profile_of_model
from greenlane_tools.plan.profile import Arrivals
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.simulation import simulate
from greenlane_tools.plan.verify.reasons import UNEXPLAINED, Around, Miss, reasons
from greenlane_tools.plan.verify.replay import SentRequest, by_work, came_of, replayed
from greenlane_tools.plan.verify.scenarios import asked_of

_TWO = """
host = "gevent"
[[routes]]
route = "GET /a"
rate_per_s = 1
sequences = [
    { weight = 3, steps = [["cpu", 30]] },
    { weight = 1, steps = [["cpu", 10]] },
]
"""


def _samples(at_ms: list[float], work: list[float]) -> Samples:
    size = len(at_ms)
    at_ns = (np.array(at_ms) * 1e6).astype(np.int64)
    zeros = np.zeros(size, np.int64)
    return Samples(
        ("a",), np.zeros(size, np.uint16), at_ns, zeros, zeros, at_ns + 5_000_000, np.full(size, 200, np.int16),
        np.zeros(size, np.int32), np.array(work),
    )  # fmt: skip


def test_runs_lie_behind_each_other_and_what_has_no_route_is_left_out() -> None:
    runs = [_samples([0, 7], [1, 2]), _samples([3], [1])]
    came = came_of(runs, {"a": "GET /a"}, lambda route, work: int(work))
    assert [(one.route, one.sequence) for one in came] == [("GET /a", 1), ("GET /a", 2), ("GET /a", 1)]
    assert came[1].at_ms == 7
    assert came[2].at_ms > 7 + 5 + 10_000
    assert came_of(runs, {}, lambda route, work: 0) == []
    slower = came_of(runs, {"a": "GET /a"}, lambda route, work: None, [[1.5, 1.0], [2.0]])
    assert [one.cpu for one in slower] == [1.5, 1.0, 2.0]


def test_who_asks_for_more_work_gets_a_longer_sequence() -> None:
    profile = profile_of_model(_TWO)
    asked = by_work(profile, {"GET /a": RequestClass(name="a", work_mean_ms=40, work_cv=1)})
    # One in four sequences takes 10 ms: the shortest quarter of the work.
    assert [asked("GET /a", work) for work in (1.0, 500.0)] == [1, 0]
    assert by_work(profile, {"GET /a": RequestClass(name="a")})("GET /a", 1.0) is None


def test_the_twin_tells_which_sequence_a_number_stands_for() -> None:
    asked = asked_of(profile_of_model(_TWO))
    found = [asked("GET /a", number / 1000) for number in range(4000)]
    assert 0.22 < found.count(1) / len(found) < 0.28


def test_recorded_requests_come_once_and_do_what_they_are_told() -> None:
    routes = [{"route": "a", "rate_per_s": 1, "sequences": [{"steps": [["cpu", 10]]}, {"steps": [["cpu", 30]]}]}]
    recorded = [[0, 0, 1], [100, 0, 0], [105, 0, 1]]
    found = simulate({"arrivals": {"recorded": recorded, "once": True}, "routes": routes}, {"host": "gevent"}, jobs=9)
    assert (found.jobs, found.unfinished) == (3, 0)
    assert found.route("a").mean_ms == pytest.approx((30 + 10 + 35) / 3, rel=1e-3)


def test_a_replay_knows_the_latencies_of_what_was_sent() -> None:
    profile = replace(profile_of_model(_TWO), arrivals=Arrivals(1.0))
    came = [SentRequest(0, "GET /a", 0), SentRequest(100, "GET /a", 1), SentRequest(200, "GET /a", 0)]
    found = replayed(profile, SetUp("gevent", 1, 1), came)
    assert found.percentile("GET /a", 0.5).at == pytest.approx(30, rel=0.01)
    assert found.within("GET /a", 15).at == pytest.approx(1 / 3)
    assert replayed(profile, SetUp("gevent", 1, 1), came, cpu=2).percentile("GET /a", 0.5).at == pytest.approx(60, 0.01)


def test_a_replay_knows_how_slow_each_request_s_core_was() -> None:
    profile = replace(profile_of_model(_TWO), arrivals=Arrivals(1.0))
    came = [SentRequest(0, "GET /a", 1), SentRequest(100, "GET /a", 1, 1.5), SentRequest(200, "GET /a", 1, 3.0)]
    found = replayed(profile, SetUp("gevent", 1, 1), came)
    assert [found.percentile("GET /a", share).at for share in (0.3, 0.6, 1)] == pytest.approx([10, 15, 30], rel=0.01)


_QUIET = Around(cpu_ms_per_job=10.0, others_cores=0.0, late="", errors_frac=0.0)


def _miss(predicted_ms: float, again_ms: float = 0.0) -> Miss:
    latencies_ms = np.linspace(90, 110, 4000)
    return Miss(0.5, predicted_ms, 100.0, 0.07, latencies_ms, lambda cpu: again_ms)


def test_a_miss_that_nothing_explains_is_said_to_be_one() -> None:
    assert reasons(_miss(150), _QUIET, 10.0) == (UNEXPLAINED,)
    others = replace(_QUIET, others_cores=0.5)
    assert reasons(_miss(150), others, 10.0) == (UNEXPLAINED, "other processes took 0.50 cores meanwhile")


def test_cpu_is_a_reason_only_if_the_simulation_agrees_with_it() -> None:
    slower = replace(_QUIET, cpu_ms_per_job=11.0)
    said = reasons(_miss(80, again_ms=101), slower, 10.0)
    assert said == (
        "cpu: requests took 11.00 ms of it in the mean, 10.00 predicted; with that the prediction is 101 ms",
    )
    assert reasons(_miss(80, again_ms=80), slower, 10.0) == (UNEXPLAINED,)


def test_few_requests_are_a_reason_where_their_percentile_could_be_what_was_predicted() -> None:
    few = Miss(0.99, 200.0, 140.0, 0.2, np.concatenate([np.full(95, 100.0), np.array([120, 130, 140, 210, 250.0])]),
               lambda cpu: 0.0)  # fmt: skip
    assert reasons(few, _QUIET, 10.0)[0].startswith("few: 100 requests only tell that it is from ")
