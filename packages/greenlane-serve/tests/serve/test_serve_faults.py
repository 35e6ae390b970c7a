"""A slice of `tests.serve.faults`: no safe request fails while parts die, hang, or have nowhere to write."""

from __future__ import annotations

import os

import pytest
from tests.serve.faults import ROWS, Row, killed, measured, while_it_lasts

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: The others take longer, or have tests of their own (test_serve_life, test_serve_health).
SHORT = ("a boot that hangs", "a full run directory", "a full log")
SLICE = [
    *(row for row in ROWS if row.name.startswith(SHORT)),
    Row("the front killed", killed(lambda served: [served.front()], 1)),
    Row("2 times the capacity", while_it_lasts(1), load=2.0),
]


@pytest.mark.parametrize("row", SLICE, ids=lambda row: row.name)
def test_no_safe_request_fails(row: Row) -> None:
    if row.before[:1] == ("unshare",) and os.geteuid() != 0:
        pytest.skip("needs root, for a file system of its own")
    cells = measured(row)
    assert cells["failed"] == 0, cells
    assert cells["again"] == 0 or "front" in row.name or "directory" in row.name
