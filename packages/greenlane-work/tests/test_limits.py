"""The seam to the decisions about upstream keys, and the rule that settings make."""

import dataclasses

import pytest

from greenlane import _native
from greenlane.errors import SettingsError
from greenlane.settings import load
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.settings import WorkSettings

S = 1_000_000_000


def test_an_order_is_begun_once_and_its_key_can_be_seen():
    upstreams = _native.Upstreams(4, UpstreamRule())
    assert upstreams.arrive(7, "kiosk-ü", S, size=100)
    assert not upstreams.arrive(7, "kiosk-ü", S)
    start = upstreams.next(2 * S)
    assert start is not None
    assert (start.order, start.key, start.probe, start.time_limit_ns) == (7, "kiosk-ü", False, 0)
    assert repr(start) == 'Start(order=7, key="kiosk-ü", probe=False, time_limit_ns=0)'
    assert upstreams.next(2 * S) is None
    assert upstreams.ended(7, 3 * S, CallOutcome.FAILED)
    (look,) = upstreams.look()
    assert (look.key, look.started, look.failed, look.ok, look.breaker) == ("kiosk-ü", 1, 1, 0, "closed")
    assert upstreams.totals().running == 0


def test_an_outcome_that_is_none_is_refused_and_the_call_goes_on():
    upstreams = _native.Upstreams(4, UpstreamRule())
    upstreams.arrive(1, "a", S)
    upstreams.next(S)
    with pytest.raises(ValueError, match="outcome 5"):
        upstreams.ended(1, S, 5)
    assert upstreams.totals().running == 1


def test_something_that_is_no_rule_is_refused():
    with pytest.raises(AttributeError, match="limit"):
        _native.Upstreams(4, object())


def test_outcomes_have_the_numbers_of_the_native_side():
    upstreams = _native.Upstreams(10, UpstreamRule())
    for outcome in CallOutcome:
        upstreams.arrive(int(outcome), "a", S)
        upstreams.next(S)
        upstreams.ended(int(outcome), S, outcome)
    (look,) = upstreams.look()
    assert {outcome: getattr(look, outcome.name.lower()) for outcome in CallOutcome} == dict.fromkeys(CallOutcome, 1)


def test_a_rule_of_its_own_holds_for_one_key_until_it_is_taken_back():
    rule = UpstreamRule(most_frac=1.0)
    upstreams = _native.Upstreams(10, rule)
    upstreams.set("a", S, dataclasses.replace(rule, limit=2))
    for number in range(10):
        upstreams.arrive(number, "a", S)
    assert _begun(upstreams) == 2
    upstreams.set("a", S, None)
    assert _begun(upstreams) == 8


def test_the_defaults_of_the_settings_are_those_of_the_rule():
    of = UpstreamRule.of(load({"task_key": "kwargs.merchant"}, environ={"GREENLANE_CONFIG": ""}, kind=WorkSettings))
    rule = UpstreamRule()
    for field in dataclasses.fields(rule):
        if not field.name.startswith(("parked", "all_parked")):
            assert getattr(of, field.name) == getattr(rule, field.name), field.name


def test_one_key_may_have_half_of_what_may_be_parked():
    rule = UpstreamRule.of(WorkSettings(task_key="args.0", task_parked_most=300))
    assert (rule.parked_most, rule.all_parked_most) == (150, 300)
    assert (rule.parked_most_bytes, rule.all_parked_most_bytes) == (32_000_000, 64_000_000)


def test_single_keys_have_rules_of_their_own_by_the_settings():
    environ = {"GREENLANE_CONFIG": "", "GREENLANE_TASK_KEY": "args.0"}
    environ["GREENLANE_TASK_RULES"] = "kiosk=limit:5 most_frac:.25,vip=least:7 weight:2"
    settings = load(environ=environ, kind=WorkSettings)
    general, rules = UpstreamRule.of(settings), UpstreamRule.of_keys(settings)
    assert rules == {
        "kiosk": dataclasses.replace(general, limit=5, most_frac=0.25),
        "vip": dataclasses.replace(general, least=7, weight=2),
    }


@pytest.mark.parametrize("words", ["limit=5", "limit:", "weight:0", "most_frac:2", "limit:1  least:1", "", "window:5"])
def test_a_rule_that_is_none_is_refused_by_name(words):
    with pytest.raises(SettingsError, match=r"task_rules=.*expected a table of texts, each one or more of limit:N"):
        WorkSettings(task_rules={"kiosk": words})


def test_without_a_key_there_is_neither_share_nor_breaker_and_all_slots_are_used():
    rule = UpstreamRule.of(WorkSettings(task_slots=16))
    upstreams = _native.Upstreams(16, rule)
    for number in range(40):
        upstreams.arrive(number, "", S)
    assert _begun(upstreams) == 16
    for number in range(16):
        upstreams.ended(number, S, CallOutcome.FAILED)
    assert _begun(upstreams) == 16
    assert upstreams.look()[0].breaker == "closed"


def _begun(upstreams):
    begun = 0
    while upstreams.next(2 * S) is not None:
        begun += 1
    return begun
