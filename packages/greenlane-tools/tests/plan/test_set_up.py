"""Set-ups and their JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.plan.models import pricing

from greenlane.errors import PlanError
from greenlane_tools.plan.costs import Costs
from greenlane_tools.plan.set_up import SetUp, SetUpLane, present


def test_what_is_written_is_read_again() -> None:
    whole = SetUp(
        host="permits", processes=3, cores=2, queue="central", limit=64, shed=True,
        lanes=(SetUpLane("kept", ("GET /bikes",), "hard", processes=1, priority=10),), upstream_limits={"offers": 5},
        placement={"GET /quote": "process"}, pool=2, costs=Costs(5.0, 128.0, 150.0),
    )  # fmt: skip
    assert SetUp.from_json(json.loads(json.dumps(whole.to_json()))) == whole


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


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("host", "twisted", "host='twisted', expected one of gevent, threads, permits, asyncio, celery"),
        ("procesess", 2, "hint: did you mean"),
        ("processes", 0, "expected a whole number of at least 1"),
        ("lanes", [{"name": "a", "routes": [], "kind": "firm"}], "lanes.a.kind='firm', expected one of soft, hard"),
        ("lanes", [{"name": "a", "routes": [], "kind": "hard", "processes": 1}], "expected more than the 1 that hard"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object, said: str) -> None:
    table = {**SetUp("gevent", 1, 1).to_json(), field: value}
    with pytest.raises(PlanError) as caught:
        SetUp.from_json(table)
    assert said in str(caught.value)
