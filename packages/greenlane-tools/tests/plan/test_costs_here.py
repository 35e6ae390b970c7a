"""What a way of serving adds to a profile's requests."""

from __future__ import annotations

import pytest

from greenlane_tools.plan.costs import CALL_RELEASES, DOOR_RELEASES, KEPT_FRAC, KEPT_PER_CALL, costs_of
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
    assert (costs.door_releases, costs.kept_frac) == (DOOR_RELEASES, KEPT_FRAC)
    assert costs.switch_us > 0


@pytest.mark.parametrize("recorded", ["gevent", "asyncio"])
def test_only_a_loops_profile_lacks_the_short_calls_of_threads(recorded):
    assert costs_of(_profile(recorded), "threads", front=False).call_releases == CALL_RELEASES
    assert costs_of(_profile(recorded), "permits", front=False).call_releases == CALL_RELEASES - KEPT_PER_CALL
    for host in ("threads", "permits"):
        assert costs_of(_profile("threads"), host, front=False).call_releases == 0
    assert costs_of(_profile(recorded), recorded, front=False).call_releases == 0


def test_a_loop_takes_its_requests_in_itself():
    costs = costs_of(_profile("gevent"), "gevent", front=False)
    assert (costs.door_releases, costs.request_releases, costs.switch_us) == (0, 0, 0)
