"""Models written by hand: laws have the means that they say, one file is one profile, errors name the place."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.models import ORDERS, pricing
from tests.plan.profiles import BIKES

from greenlane.errors import PlanError
from greenlane_tools.plan.candidates import hanging, upstream_rates
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.sources import keyed, profile_of_model
from tests.examples import examples


def one(step: str, more: str = "") -> Profile:
    return profile_of_model(f'host = "threads"\n{more}\n[[routes]]\nroute = "x"\nrate_per_s = 1\nsteps = [{step}]\n')


def test_the_model_of_the_demo() -> None:
    found = profile_of_model(BIKES)
    bikes, quote = found.route("bikes"), found.route("quote")
    assert found.arrivals.rate_per_s == 70 and [route.route for route in found.routes] == ["quote", "bikes"]
    assert bikes.upstreams == ("offers",)
    assert [step.kind for step in bikes.sequences[0].steps] == ["cpu", "io", "cpu", "io", "cpu"]
    assert len(quote.sequences) == 256 and quote.demand.cpu_ms == pytest.approx(16, rel=1e-4)
    assert profile_of_model(BIKES).to_json() == found.to_json()
    assert Profile.from_json(found.to_json()) == found


@examples(30)
@given(st.floats(0.1, 1000), st.floats(0.05, 2))
def test_a_law_has_its_mean_and_its_variation(mean: float, cv: float) -> None:
    times = [each.ms("cpu") for each in one(f'["cpu", {{ mean = {mean}, cv = {cv} }}]').routes[0].sequences]
    found = math.fsum(times) / len(times)
    spread = math.sqrt(math.fsum((each - found) ** 2 for each in times) / len(times)) / found
    assert found == pytest.approx(mean, rel=1e-3)
    # 256 parts cut the far tail: the more it weighs, the more of the variation is there.
    assert 0.6 * cv < spread < 1.05 * cv


def test_a_law_by_two_percentiles_has_them() -> None:
    times = sorted(each.ms("io") for each in one('["cpu", 1], ["io", { median = 110, p99 = 400 }]').routes[0].sequences)
    assert times[128] == pytest.approx(110, rel=0.03) and times[253] == pytest.approx(400, rel=0.1)


def test_an_exponential_law_varies_as_one() -> None:
    times = sorted(each.ms("cpu") for each in one('["cpu", { mean = 10, law = "exponential" }]').routes[0].sequences)
    assert math.fsum(times) / 256 == pytest.approx(10, rel=1e-3) and times[128] == pytest.approx(6.93, rel=0.03)


def test_steps_of_one_sequence_vary_apart_from_each_other() -> None:
    found = one('["cpu", { mean = 10, cv = 1 }], ["io", { mean = 50, cv = 1 }]').routes[0].sequences
    cpu, io = [each.ms("cpu") for each in found], [each.ms("io") for each in found]
    both = math.fsum((c - 10) * (i - 50) for c, i in zip(cpu, io, strict=True)) / 256
    assert abs(both) < 0.25 * 10 * 50


@pytest.mark.parametrize(
    ("step", "name", "says"),
    [
        ('["cpu", { mean = 5, cvv = 1 }]', "routes[0].steps.cvv", "did you mean 'cv'?"),
        ('["cpu", { median = 5, p99 = 1 }]', "routes[0].steps.p99", "at least the median"),
        ('["cpu", { mean = 5, law = "pareto" }]', "routes[0].steps.law", "one of lognormal, exponential"),
        ('["cpu", { p99 = 5 }]', "routes[0].steps", "{ mean, cv }"),
        ('["gpu", 5]', "routes[0].sequences[0].steps", '["cpu", ms]'),
        ('["cpu"]', "routes[0].sequences[0].steps", '["cpu", ms]'),
    ],
)
def test_a_wrong_step_is_named(step: str, name: str, says: str) -> None:
    with pytest.raises(PlanError) as refused:
        one(step)
    assert refused.value.name == name and says in str(refused.value)


def test_what_is_no_toml_says_where() -> None:
    with pytest.raises(PlanError, match="line 1"):
        profile_of_model("host = gevent")


def test_an_unknown_field_is_no_default() -> None:
    with pytest.raises(PlanError, match="did you mean 'cores'"):
        one('["cpu", 1]', "core = 4")


# --- Tasks distinguished by the upstream that they call.


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
