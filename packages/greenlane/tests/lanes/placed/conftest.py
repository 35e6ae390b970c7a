"""What every test of placed calls leaves as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.lanes.burners import until


@pytest.fixture(autouse=True)
def interval_is_left_alone() -> Iterator[None]:
    """Whoever shortens the interpreter's switch interval puts it back: a test that leaves it short fails itself."""
    before_s = sys.getswitchinterval()
    yield
    until(lambda: sys.getswitchinterval() == before_s)
