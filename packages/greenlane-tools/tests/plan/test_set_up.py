"""The present set-up of a profile, and what a way of serving adds to its requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.plan.models import pricing

from greenlane_tools.plan.costs import CALL_RELEASES, DOOR_RELEASES, costs_of
from greenlane_tools.plan.set_up import present


def test_the_present_one_is_the_profiles() -> None:
    found = present(pricing())
    assert (found.host, found.processes, found.cores, found.limit, found.queue) == ("gevent", 1, 2, 1000, "accept")


@pytest.mark.parametrize(
    ("host", "recorded_ms", "found_ms"),
    [("permits", None, 5), ("permits", 0.5, 5), ("permits", 8, 8), ("threads", 0.5, 0.5), ("threads", None, 5)],
)
def test_the_present_interval_is_the_process_own_and_not_that_of_a_permit(
    host: str, recorded_ms: float | None, found_ms: float
) -> None:
    assert present(replace(pricing(), host=host, switch_interval_ms=recorded_ms)).switch_interval_ms == found_ms


@pytest.mark.parametrize("recorded", ["gevent", "asyncio"])
def test_only_a_loops_profile_lacks_the_short_calls_of_threads(recorded: str) -> None:
    for host in ("threads", "permits"):
        assert costs_of(replace(pricing(), host=recorded), host, front=False).call_releases == CALL_RELEASES
        costs = costs_of(replace(pricing(), host="threads"), host, front=False)
        assert (costs.call_releases, costs.door_releases) == (0, DOOR_RELEASES)
    costs = costs_of(replace(pricing(), host=recorded), recorded, front=False)
    assert (costs.call_releases, costs.door_releases, costs.request_releases, costs.switch_us) == (0, 0, 0, 0)
