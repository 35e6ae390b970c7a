"""Tasks distinguished by the upstream that they call."""

from __future__ import annotations

import math

import pytest
from tests.plan.models import ORDERS, pricing

from greenlane_tools.plan.candidates import hanging, upstream_rates
from greenlane_tools.plan.model_file import profile_of_model
from greenlane_tools.plan.sources import keyed

_ONE_TASK = """
host = "celery"
processes = 1
cores = 1
slots = 200
[[routes]]
route = "send_order"
rate_per_s = 10
requests = 1000
upstreams = ["taco", "sushi"]
sequences = [
    { weight = 3, steps = [["cpu", 3], ["io", 0.2], ["io", 300, 0]] },
    { weight = 1, steps = [["cpu", 3], ["io", 400, 1]] },
]
"""


def test_one_task_that_calls_two_upstreams_is_two_kinds_of_work() -> None:
    found = keyed(profile_of_model(_ONE_TASK))
    assert {route.route: (route.rate_per_s, route.requests) for route in found.routes} == {
        "send_order to taco": (7.5, 750),
        "send_order to sushi": (2.5, 250),
    }
    assert upstream_rates(found) == {"taco": 7.5, "sushi": 2.5}
    means = math.fsum(route.rate_per_s * route.demand.io_ms for route in found.routes)
    assert means == pytest.approx(7.5 * 300.2 + 2.5 * 400)


def test_when_one_hangs_only_the_others_are_spared() -> None:
    assert hanging(profile_of_model(_ONE_TASK)) is None
    found = hanging(keyed(profile_of_model(_ONE_TASK)))
    assert found is not None
    assert found[1] == ("send_order to sushi",)


def test_upstreams_are_called_as_often_as_sequences_say() -> None:
    assert upstream_rates(profile_of_model(_ONE_TASK)) == {"taco": 7.5, "sushi": 2.5}


def test_what_has_routes_already_stays_as_it_is() -> None:
    orders = profile_of_model(ORDERS)
    assert keyed(orders) is orders
    service = pricing()
    assert keyed(service) is service
