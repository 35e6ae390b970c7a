"""An anonymous profile: no name is left in it, its numbers are, and the same key gives the same tokens."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.plan.profiles import profiles

from greenlane_tools.plan.anonymous import anonymised
from greenlane_tools.plan.merging import merged
from greenlane_tools.plan.profile import Arrivals, Profile, Route, Upstream
from greenlane_tools.plan.steps import Sequence, Step
from tests.examples import examples

NAMES = st.text(st.characters(codec="utf-8"), min_size=5, max_size=30).map(lambda t: f"ß{t}")


@examples(30)
@given(NAMES, NAMES, NAMES, NAMES)
def test_no_name_is_left(service: str, route: str, lane: str, upstream: str) -> None:
    profile = Profile(
        name=service, host="celery", arrivals=Arrivals(1.0), upstreams=(Upstream(upstream, 3),),
        routes=(Route(route, 1.0, (Sequence(1, (Step("cpu", 1.0), Step("io", 5.0, 0))),), (upstream,), lane),),
        notes=(f"{route} is odd.", "process 4711: 3 jobs are left out.", "5 % was waiting."),
    )  # fmt: skip
    found = anonymised(profile, b"key")
    written = found.to_json().decode("utf-8")
    assert not any(name in written for name in (service, route, lane, upstream, "4711"))
    assert found.notes == ("5 % was waiting.",) and found.anonymous
    assert Profile.from_json(found.to_json()) == found


@examples(30)
@given(profiles())
def test_numbers_stay_and_a_second_time_changes_nothing(profile: Profile) -> None:
    found = anonymised(profile, b"key")
    assert sorted(route.rate_per_s for route in found.routes) == sorted(route.rate_per_s for route in profile.routes)
    assert {route.sequences for route in found.routes} == {route.sequences for route in profile.routes}
    assert found.requests == profile.requests and anonymised(found, b"another") == found


@examples(30)
@given(profiles(), profiles())
def test_merging_before_or_after_is_the_same(a: Profile, b: Profile) -> None:
    before, after = anonymised(merged([a, b]), b"key"), merged([anonymised(a, b"key"), anonymised(b, b"key")])
    assert {route.route: route.requests for route in before.routes} == {
        route.route: route.requests for route in after.routes
    }
    assert {route.route: route.sequences for route in before.routes}.keys() == {r.route for r in after.routes}


@examples(30)
@given(profiles())
def test_another_key_gives_other_tokens(profile: Profile) -> None:
    one, other = anonymised(profile, b"one"), anonymised(profile, b"other")
    assert not {route.route for route in one.routes} & {route.route for route in other.routes}
    assert anonymised(replace(profile), b"one") == one
