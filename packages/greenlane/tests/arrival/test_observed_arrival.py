"""Each observed server, on each kind of connection: a request's arrival is its own, or its clock says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.arrival.compared import compare, faults
from tests.arrival.servers import SERVERS, missing

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("name", SERVERS)
def test_no_request_arrives_before_it_was_sent(
    name: str, start_process: StartProcess, tmp_path: Path, free_port: int
) -> None:
    server = SERVERS[name]
    if missing(server):
        pytest.skip(f"needs {' '.join(missing(server))}")
    rows = compare(server, start_process, tmp_path, free_port)
    found = faults(rows, server)
    assert not found, "\n".join(found)
