"""Placed calls run on real threads, loops and processes, and their tests wait for each other's steps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lanes.burners import until
from tests.placement.cluster.lent import Lender

_HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def interval_is_left_alone() -> Iterator[None]:
    """Code that shortens the interpreter's switch interval puts it back: a test that leaves it short fails itself."""
    before_s = sys.getswitchinterval()
    yield
    until(lambda: sys.getswitchinterval() == before_s)


@pytest.fixture(scope="session")
def cluster(ray_address: str) -> Iterator[Lender]:
    """Executors on a Ray of this session."""
    lender = Lender(ray_address)
    yield lender
    lender.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents and _HERE / "cluster" not in item.path.parents:
            item.add_marker(pytest.mark.measured)
