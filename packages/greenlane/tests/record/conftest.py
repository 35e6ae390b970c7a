"""Everything here records a real program, and most of it asserts when things were."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent


@pytest.fixture
def control_dir() -> Iterator[Path]:
    """A folder with a short name: it holds sockets."""
    folder = Path(tempfile.mkdtemp(prefix="gl"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _FOLDER in item.path.parents:
            item.add_marker(pytest.mark.measured)
