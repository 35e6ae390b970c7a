"""Set-ups as settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from greenlane.plan.set_up import SetUp
from greenlane.plan.written import checked, command_of, glob_of
from greenlane.settings import Lane


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("GET /bikes", "/bikes"),
        ("GET /v1/bikes/<int:id>", "/v1/bikes/17"),
        ("POST /orders/{order_id}/lines", "/orders/9/lines"),
        ("GET /a/:name/b", "/a/x/b"),
        ("GET /odd[1]/*", "/odd[1]/*"),
    ],
)
def test_a_lane_of_a_route_matches_its_name_and_its_requests(route: str, path: str) -> None:
    lane = Lane("kept", match=(glob_of(route),))
    assert lane.matches(route, path)
    assert lane.matches(f"{route.split()[0]} {path}", path)
    assert not lane.matches("GET /elsewhere", "/elsewhere")


def test_workers_of_tasks_are_as_many_as_there_are_processes() -> None:
    one = SetUp("celery", 1, 2, limit=6)
    assert command_of(one) == "greenlane work module:app"
    assert command_of(replace(one, processes=2)) == "greenlane work module:app    # 2 of these"


def test_what_the_settings_refuse_is_not_written() -> None:
    from greenlane.errors import PlanError

    with pytest.raises(PlanError, match="write the settings: workers=-1"):
        checked("workers = -1\n")
