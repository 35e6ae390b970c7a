"""Each recorded latency is within 5 % or 2 ms of the client's own; `python -m bench.arrival` prints them all.

A busy machine may keep the client between its clock and its send, or the server between its answer and the job's end:
`test_observed_arrival` holds what no load can break.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.arrival.compared import compare
from tests.arrival.servers import SERVERS, missing

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.measured]


@pytest.mark.parametrize("name", SERVERS)
def test_each_latency_is_the_client_s_own(
    name: str, start_process: StartProcess, tmp_path: Path, free_port: int
) -> None:
    server = SERVERS[name]
    if missing(server):
        pytest.skip(f"needs {' '.join(missing(server))}")
    rows = compare(server, start_process, tmp_path, free_port)
    far = [
        f"{row.exchange.kind}: {row.error_ns / 1e6:+.1f} of {row.client_ns / 1e6:.1f} ms ({row.job.clock})"
        for row in rows
        if not row.is_near and row.exchange.kind not in server.apart
    ]
    assert not far, "\n".join(far)
