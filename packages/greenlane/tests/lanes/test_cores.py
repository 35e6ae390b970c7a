"""How many permits a process has."""

import sys

import pytest

from greenlane.policy import permits as rule
from greenlane.policy.permits import permits_of
from greenlane.settings import Settings


@pytest.mark.parametrize(("gil", "cores", "permits"), [(True, 8, 1), (False, 8, 7), (False, 2, 1), (False, 1, 1)])
def test_without_a_gil_one_core_stays_with_the_short_phases(
    monkeypatch: pytest.MonkeyPatch, gil: bool, cores: int, permits: int
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: gil, raising=False)
    monkeypatch.setattr(rule, "usable_cores", lambda: cores)
    assert permits_of(Settings()) == permits
    assert permits_of(Settings(permits=3)) == 3
