"""Placed calls run on real threads, loops and processes, and their tests wait for each other's steps: on a machine that
is busy otherwise they are made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lanes.cluster.lent import Lender

_FOLDERS = (Path(__file__).parent / "placed", Path(__file__).parent / "arena")


@pytest.fixture(scope="session")
def cluster(ray_address: str) -> Iterator[Lender]:
    """Executors on a Ray of this session."""
    lender = Lender(ray_address)
    yield lender
    lender.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in _FOLDERS):
            item.add_marker(pytest.mark.measured)
