"""Placed calls run on real threads, loops and processes, and their tests wait for each other's steps: on a machine that
is busy otherwise they are made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOLDERS = (Path(__file__).parent / "placed", Path(__file__).parent / "arena")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in _FOLDERS):
            item.add_marker(pytest.mark.measured)
