"""A loop that is busy while its connection is made: that is its lateness, not the network's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.command import record, recorded

pytestmark = [pytest.mark.slow]

HOG_S = 0.12

GREEN = f"""
import gevent, socket as _socket
from gevent import monkey
monkey.patch_all()
import socket, time
from greenlane import record

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(8)

def call():
    with record.job("call"):
        client = socket.create_connection(listener.getsockname())
        client.close()

def hog():
    end_s = time.thread_time() + {HOG_S}
    while time.thread_time() < end_s:
        pass

for _ in range(4):
    gevent.joinall([gevent.spawn(call), gevent.spawn(hog)])
"""

LOOP = f"""
import asyncio, socket, time
from greenlane import record

async def call(address):
    with record.job("call"):
        _, writer = await asyncio.open_connection(*address)
        writer.close()

async def hog():
    end_s = time.thread_time() + {HOG_S}
    while time.thread_time() < end_s:
        pass

async def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    for _ in range(4):
        await asyncio.gather(call(listener.getsockname()), hog())

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [GREEN, LOOP], ids=["gevent", "asyncio"])
def test_a_connection_that_was_made_while_the_loop_was_busy_was_waited_for(program: str, tmp_path: Path) -> None:
    ended = record(program, cwd=tmp_path)
    assert ended.code == 0, ended.err
    jobs = [job for job in recorded(tmp_path).jobs if job.route == "call"]
    assert len(jobs) == 4
    best = min(jobs, key=lambda job: sum(job.io_ns.values()) + job.uncertain_ns)
    # The kernel tells the moment to its tick of some ms.
    assert sum(best.io_ns.values()) <= 30_000_000
    assert best.wait_ns["loop"] >= HOG_S * 1e9 - 30_000_000
