"""What a way of serving adds to a profile's requests."""

from __future__ import annotations

import pytest

from greenlane_tools.plan.costs import CALL_RELEASES, DOOR_RELEASES, costs_of
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


@pytest.mark.parametrize("recorded", ["gevent", "asyncio"])
def test_only_a_loops_profile_lacks_the_short_calls_of_threads(recorded):
    for host in ("threads", "permits"):
        assert costs_of(_profile(recorded), host, front=False).call_releases == CALL_RELEASES
        costs = costs_of(_profile("threads"), host, front=False)
        assert (costs.call_releases, costs.door_releases) == (0, DOOR_RELEASES)
    costs = costs_of(_profile(recorded), recorded, front=False)
    assert (costs.call_releases, costs.door_releases, costs.request_releases, costs.switch_us) == (0, 0, 0, 0)
