"""`placement = "cluster"`: by pin only, and what is said when nobody has named a cluster or Ray is not there."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.placement.cluster import functions
from tests.placement.cluster.lent import Lender

from greenlane.errors import SettingsError
from greenlane.lanes.permits import make_permits
from greenlane.placement import Placement
from greenlane.placement.cluster.options import ClusterOptions
from greenlane.placement.functions import PlacedFunction
from greenlane.settings import Settings
from greenlane.wiring.executors import RemoteExecutors

HERE = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="pip install 'greenlane[ray]'")


class Placed:
    """A placement with settings of its own."""

    def __init__(self, **settings: Any) -> None:
        given = Settings(**settings)
        self.permits = make_permits(given, mode=given.mode)
        self.executors = RemoteExecutors(given)
        self.placement = Placement(given, lambda: self.permits, self.executors)

    def __call__(self, placement: str, fn: Any, *args: object) -> Any:
        return self.placement.run_placed(PlacedFunction(fn, placement, ""), args, {})  # type: ignore[arg-type]

    def close(self) -> None:
        self.placement.lane.close(2)
        self.executors.close(2)


@pytest.fixture
def pinned() -> Iterator[Any]:
    made: list[Placed] = []

    def make(**settings: Any) -> Placed:
        made.append(Placed(**settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"hint: pip install 'ray>=2\.10,<3'"):
        ClusterOptions(address="local")


@HERE
def test_without_an_address_nothing_is_started_and_the_call_says_so(pinned: Any) -> None:
    with pytest.raises(SettingsError, match="cluster_address"):
        pinned()("cluster", functions.pid)


@HERE
@pytest.mark.parametrize("wrong", [{"queue": -1}, {"workers": 0}, {"idle_s": 0}])
def test_options_are_checked_when_they_are_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="hint: "):
        ClusterOptions(address="local", **wrong)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.gate
def test_a_pinned_function_runs_on_the_cluster_by_argument_and_by_setting(cluster: Lender, pinned: Any) -> None:
    placed = pinned(cluster_address=cluster.address, cluster_workers=1, placements={"*functions.pid": "cluster"})
    there = placed("cluster", functions.same, 1), placed("auto", functions.pid)
    assert there[0] == 1
    assert there[1] != os.getpid()
    assert placed.executors("cluster").stats().done == 2
    assert placed.placement.counters()["placed_cluster"] == 2
