"""Set-ups as settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from greenlane.errors import PlanError
from greenlane.settings import Lane
from greenlane_tools.plan.options import Candidate, Option
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.settings import _keys, checked, command_of, glob_of


def _command(set_up: SetUp, *, stock: bool = False) -> str:
    return command_of(Option(Candidate("", set_up, "", 0, stock), None))  # type: ignore[arg-type]


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
    assert _command(one) == "greenlane celery module:app"
    assert _command(replace(one, processes=2)) == "greenlane celery module:app    # 2 of these"
    assert _command(replace(one, processes=3, limit=1), stock=True) == "celery -A module worker -P prefork -c 3"


@pytest.mark.parametrize(
    ("set_up", "stock", "command"),
    [
        (SetUp("gevent", 2, 2, limit=1000), True, "gunicorn -k gevent --workers 2 module:app"),
        (SetUp("threads", 2, 2, limit=64), True, "gunicorn -k gthread --workers 2 --threads 64 module:app"),
        (SetUp("permits", 2, 2, queue="central"), False, "greenlane serve module:app"),
        (SetUp("asyncio", 3, 3), True, "uvicorn --workers 3 module:app"),
    ],
)
def test_a_set_up_is_a_command(set_up: SetUp, stock: bool, command: str) -> None:
    assert _command(set_up, stock=stock) == command


@pytest.mark.parametrize(
    ("limit", "each", "why"),
    [
        (8, 2, "8 calls together."),
        (7, 1, "4 calls together; simulated was one limit of 7 over all of them: the rest is not used."),
        (2, 1, "4 calls together; simulated was one limit of 2 over all of them: a process cannot have less than one."),
    ],
)
def test_a_bulkhead_is_never_larger_than_it_was_simulated_where_processes_can_share_it_out(
    limit: int, each: int, why: str
) -> None:
    lines = list(_keys(SetUp("celery", 4, 2, limit=6, upstream_limits={"taco": limit, "sushi": limit})))
    assert f"# task_limit = {each}" in lines
    text = " ".join(" ".join(lines).replace("#", "").split())
    assert f"Each of the 4 processes has a task_limit of its own, {why}" in text


def test_what_the_settings_refuse_is_not_written() -> None:
    with pytest.raises(PlanError, match="write the settings: workers=-1"):
        checked("workers = -1\n")
