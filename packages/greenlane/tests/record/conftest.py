"""Everything here records a real program and asserts when things were: on a busy machine it is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _FOLDER in item.path.parents:
            item.add_marker(pytest.mark.measured)
