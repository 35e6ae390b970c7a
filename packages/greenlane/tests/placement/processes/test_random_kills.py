"""kill -9 at random: each call answers or fails by name, no result is wrong, nothing is left. See `kills`."""

from __future__ import annotations

import json

import pytest

from tests.fixtures import RunPython
from tests.where import IMPORT_PATH

PROGRAM = f"""
import sys
sys.path[:0] = {IMPORT_PATH.split(":")!r}
from tests.placement.processes.kills import main
main()
"""


@pytest.mark.slow
@pytest.mark.timeout(200, method="thread")
def test_five_seconds_of_kills(run_python: RunPython) -> None:
    counts = json.loads(run_python(PROGRAM, "5", timeout_s=180).stdout)
    assert counts["kills"] >= 2, counts
    assert counts["answered"] >= 20, counts


@pytest.mark.soak
@pytest.mark.timeout(300, method="thread")
def test_a_minute_of_kills(run_python: RunPython) -> None:
    counts = json.loads(run_python(PROGRAM, "60", timeout_s=280).stdout)
    print(counts)
    assert counts["kills"] >= 30, counts
    assert counts["stops"] >= 30, counts
    assert counts["answered"] >= 500, counts
    assert counts["died"] >= 1, counts
