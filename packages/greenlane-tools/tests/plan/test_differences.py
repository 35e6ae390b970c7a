"""Before and after a release: what changed is found, noise is not called a change. On-call questions 15 and 16."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from tests.plan.profiles import BIKES, Law, sampled

from greenlane.errors import PlanError
from greenlane_tools.plan.differences import Measure, answers, compared, rows_of, table_of
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.route import Step
from greenlane_tools.plan.sources import profile_of_model


def service(cpu_ms: float, cv: float = 0.4, io_ms: float = 55.0) -> Law:
    def law(chance: random.Random) -> tuple[Step, ...]:
        cpu = cpu_ms * chance.gammavariate(1 / cv**2, cv**2)
        return (
            Step("cpu", round(cpu / 2, 5)),
            Step("io", round(chance.gauss(io_ms, 4), 5), 0),
            Step("cpu", round(cpu / 2, 5)),
        )

    return law


def pair(before: Law, after: Law, seed: int, requests: int = 3000) -> tuple[Profile, Profile]:
    return sampled(before, requests, seed=seed), sampled(after, requests, seed=1000 + seed)


@pytest.mark.slow
def test_two_samples_of_one_service_are_no_change() -> None:
    changes = 0
    for seed in range(8):
        found = compared(*pair(service(5), service(5), seed))
        assert len(found.differences) == 4
        changes += sum(bool(each.changed) for each in found.differences)
    assert changes <= 1
    assert any("No request costs more or less" in sentence for sentence in answers(found))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.3, 0.6])
def test_a_change_of_cpu_is_found_with_an_interval_that_holds_it(factor: float) -> None:
    held = 0
    for seed in range(4):
        change = compared(*pair(service(5), service(5 * factor), seed)).of("GET /x", Measure.CPU)
        assert change is not None and change.changed and change.low is not None and change.high is not None
        held += change.low <= factor <= change.high
    assert held >= 3


def test_question_15_the_cliff_is_nearer() -> None:
    old, new = pair(service(5, cv=0.1), service(9.2, cv=0.1), 1)
    found = compared(old, new)
    assert found.full == (pytest.approx(4, rel=0.03), pytest.approx(1000 / (50 * 9.2), rel=0.03))
    said = answers(found)
    assert said[0].startswith("The cliff is nearer: the service was full at 4.0× the load before, now at 2.2×")
    assert any("GET /x: CPU a request" in sentence and "+84 %" in sentence for sentence in said)
    assert [(row["what"], row["is"]) for row in table_of(found)] == [("CPU a request", "changed")] * 2


def test_more_visitors_are_no_slower_release() -> None:
    old, new = pair(service(5), service(5), 3)
    twice = replace(new.routes[0], rate_per_s=2 * new.routes[0].rate_per_s)
    found = compared(old, replace(new, routes=(twice,)))
    assert not any(each.changed for each in found.differences)
    assert found.full[1] == pytest.approx(found.full[0], rel=0.1)


@pytest.mark.slow
def test_slower_io_is_not_more_cpu() -> None:
    found = compared(*pair(service(5), service(5, io_ms=80), 4))
    changed = {each.measure for each in found.differences if each.route and each.changed}
    assert Measure.IO in changed and Measure.CPU not in changed
    assert any(re.search(r"I/O a request 5[45]\S* ms before, (79|80)\S* ms now", said) for said in answers(found))


def test_where_requests_are_too_few_nothing_is_called_a_change() -> None:
    old, new = pair(service(5), service(15), 5)
    few = replace(old, routes=tuple(replace(each, sequences=each.sequences[:9]) for each in old.routes))
    found = compared(few, new)
    assert all(each.changed is None for each in found.differences)
    assert any("how requests differ is not known" in sentence for sentence in answers(found))
    rows = [row for row in rows_of(found) if row["view"] == "difference"]
    assert all(row["ratio_low"] is None and row["changed"] is None for row in rows)


def test_routes_of_one_side_are_named_and_those_of_none_refused() -> None:
    old = sampled(service(5), 500, seed=1, name="GET /a")
    both = profile_of_model(BIKES)
    found = compared(replace(both, host="threads", routes=(*both.routes, *old.routes)), replace(both, host="threads"))
    assert list(found.gone) == ["GET /a"] and not found.come
    with pytest.raises(PlanError, match="a route of both"):
        compared(old, both)


def test_a_slower_machine_is_no_slower_release() -> None:
    old, same = pair(service(5, cv=0.1), service(5, cv=0.1), 1)
    old, slow = replace(old, loop_us=30.0), replace(same, loop_us=30.0).slowed(1.4)
    found = compared(old, slow)
    assert not any(each.changed for each in found.differences)
    assert "The cores were 1.40 times slower than before; CPU is given at the speed that they had before." in answers(
        found
    )
    unknown = compared(old, replace(slow, loop_us=None))
    assert any(each.changed for each in unknown.differences)
    assert any("is not in both recordings" in sentence for sentence in answers(unknown))
