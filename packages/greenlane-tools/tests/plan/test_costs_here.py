"""What a way of serving adds to a profile's requests."""

from __future__ import annotations

import pytest

from greenlane_tools.plan.costs import KEPT_FRAC, KEPT_PER_CALL, RELEASES_PER_CALL, TURNS_PER_REQUEST, costs_of
from greenlane_tools.plan.model_file import profile_of_model

_MODEL = """
name = "pricing"
host = "{host}"

[[routes]]
route = "bikes"
rate_per_s = 20
steps = [["cpu", 1], ["io", 100], ["cpu", 1]]
"""


def _profile(host):
    return profile_of_model(_MODEL.format(host=host))


@pytest.mark.parametrize("host", ["threads", "permits"])
def test_threads_of_a_server_have_one_that_accepts_and_race_for_the_gil(host):
    costs = costs_of(_profile("threads"), host, front=False)
    assert (costs.turns_per_request, costs.kept_frac) == (TURNS_PER_REQUEST, KEPT_FRAC)
    assert costs.switch_us > 0


@pytest.mark.parametrize("recorded", ["gevent", "asyncio"])
def test_only_a_loops_profile_lacks_the_short_calls_of_threads(recorded):
    assert costs_of(_profile(recorded), "threads", front=False).releases_per_call == RELEASES_PER_CALL
    assert costs_of(_profile("threads"), "threads", front=False).releases_per_call == 0
    assert costs_of(_profile(recorded), recorded, front=False).releases_per_call == 0


@pytest.mark.parametrize("recorded", ["gevent", "asyncio"])
def test_what_permits_send_with_the_gil_kept_is_no_race(recorded):
    costs = costs_of(_profile(recorded), "permits", front=False)
    assert costs.releases_per_call == RELEASES_PER_CALL - KEPT_PER_CALL == 8
    assert costs_of(_profile("threads"), "permits", front=False).releases_per_call == 0


def test_a_loop_takes_its_requests_in_itself():
    costs = costs_of(_profile("gevent"), "gevent", front=False)
    assert (costs.turns_per_request, costs.switch_us) == (0, 0.0)
