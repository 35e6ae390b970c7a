"""Recorded latencies are within 5 % or 2 ms of the client's own.

A busy machine may keep the client between its clock and its send, or the server between its answer and the job's end:
here one request of each kind must be near. `test_observed_arrival` holds of each request what no load can break.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.arrival.client import KINDS
from tests.arrival.compared import compare
from tests.arrival.servers import SERVERS, missing

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.measured]


@pytest.mark.parametrize("name", SERVERS)
def test_latencies_are_the_client_s_own(name: str, start_process: StartProcess, tmp_path: Path, free_port: int) -> None:
    server = SERVERS[name]
    if missing(server):
        pytest.skip(f"needs {' '.join(missing(server))}")
    rows = compare(server, start_process, tmp_path, free_port)
    far = []
    for kind in (kind for kind in KINDS if kind not in server.apart):
        of_kind = [row for row in rows if row.exchange.kind == kind]
        if not any(row.is_near for row in of_kind):
            far += [f"{kind}: {row.error_ns / 1e6:+.1f} of {row.client_ns / 1e6:.1f} ms" for row in of_kind]
    assert not far, "\n".join(far)
