"""Where shares lie: a folder, and a real Redis."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest


@pytest.fixture(params=["file", pytest.param("redis", marks=[pytest.mark.system, pytest.mark.slow])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place that nobody has used."""
    if request.param == "file":
        return f"file://{tmp_path}/shares"
    return str(request.getfixturevalue("redis_url"))


@pytest.fixture
def flow() -> str:
    """A queue's name of the test's own: one Redis serves all tests."""
    return f"orders-{uuid.uuid4().hex[:12]}"
