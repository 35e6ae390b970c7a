"""Calls in a recording: what the upstream took and what the process took are told apart, under each way to run.

By construction: the upstream answers after DELAY_S; jobs that start together burn BURN_S of CPU each after their reply,
one at a time. So each reply comes after DELAY_S, and most lie there while others burn.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.record import command

from tests import child
from tests.fixtures import RunPython

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

DELAY_S, BURN_S, TOGETHER = 0.11, 0.02, 20
NS = 10**9

UPSTREAM = """
import asyncio, sys
from aiohttp import web

async def late(request):
    await asyncio.sleep(float(sys.argv[2]))
    return web.Response(text="bikes")

app = web.Application()
app.router.add_get("/late/{number}", late)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""

BEGIN = """
import sys, time
import greenlane.record
URL, BURN_S, TOGETHER = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])

def burn():
    end_s = time.thread_time() + BURN_S
    while time.thread_time() < end_s:
        pass
"""
WITH_REQUESTS = """
import requests

def work(number):
    with greenlane.record.job("GET /quote"):
        assert requests.get(f"{URL}/{number}", timeout=5).text == "bikes"
        burn()
"""
WITH_AIOHTTP = """
import aiohttp, asyncio

async def work(client, number):
    with greenlane.record.job("GET /quote"):
        async with client.get(f"{URL}/{number}") as answer:
            assert await answer.text() == "bikes"
        burn()

async def main():
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(sock_read=5)) as client:
        await asyncio.gather(*(work(client, number) for number in range(TOGETHER)))
"""
WITH_HTTPX = """
import asyncio, httpx

async def work(client, number):
    with greenlane.record.job("GET /quote"):
        assert (await client.get(f"{URL}/{number}")).text == "bikes"
        burn()

async def main():
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        await asyncio.gather(*(work(client, number) for number in range(TOGETHER)))
"""
RUN_ASYNCIO = "\nasyncio.run(main())\n"
RUN_UVLOOP = "\nimport uvloop\nuvloop.install()\nasyncio.run(main())\n"
PROGRAMS = {
    "threads": BEGIN
    + WITH_REQUESTS
    + """
import threading
threads = [threading.Thread(target=work, args=(number,)) for number in range(TOGETHER)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""",
    "gevent": "from gevent import monkey; monkey.patch_all()\n"
    + BEGIN
    + WITH_REQUESTS
    + """
import gevent
gevent.joinall([gevent.spawn(work, number) for number in range(TOGETHER)], raise_error=True)
""",
    "aiohttp on asyncio": BEGIN + WITH_AIOHTTP + RUN_ASYNCIO,
    "aiohttp on uvloop": BEGIN + WITH_AIOHTTP + RUN_UVLOOP,
    "httpx on asyncio": BEGIN + WITH_HTTPX + RUN_ASYNCIO,
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """host:port of the upstream."""
    pytest.importorskip("aiohttp")
    port = child.free_port()
    with child.Child([sys.executable, "-c", UPSTREAM, str(port), str(DELAY_S)]) as server:
        server.wait_port(port)
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("way", PROGRAMS)
def test_a_late_process_is_not_blamed_on_its_upstream(way: str, upstream: str, tmp_path: Path) -> None:
    for name in ("gevent", "uvloop", "httpx"):
        if name in way:
            pytest.importorskip(name)
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "r.glr").unlink()
    argv = (f"http://{upstream}/late", str(BURN_S), str(TOGETHER))
    arguments = ("record", "-o", "r.glr", "--", sys.executable, "-W", "ignore", "-c", PROGRAMS[way], *argv)
    ended = command.greenlane(*arguments, cwd=tmp_path)
    assert ended.code == 0, ended.err
    recording = command.recorded(tmp_path)
    assert len(recording.calls) == len(recording.jobs) == TOGETHER
    assert {(call.upstream, call.operation, call.outcome) for call in recording.calls} == {
        (upstream, "GET /late/*", "ok")
    }
    assert {call.job for call in recording.calls} == {job.job for job in recording.jobs}
    for call in recording.calls:
        assert call.from_ns + DELAY_S * NS <= call.ready_ns <= call.to_ns
        assert call.deadline_ns == call.from_ns + 5 * NS
    # The last of them is behind all the others' burning; how closely the replies came together is the machine's.
    unread_ns = sorted(call.to_ns - call.ready_ns for call in recording.calls)
    assert unread_ns[-1] > TOGETHER / 4 * BURN_S * NS
    assert unread_ns[0] < unread_ns[-1] / 2


LIVE = """
import http.client, sys
original = http.client.HTTPConnection.getresponse.__code__
from greenlane.wiring import recording as wired
from greenlane.settings import load

def placed():
    return http.client.HTTPConnection.getresponse.__code__ is not original

running = wired.start_recording(load({"record_folder": sys.argv[1], "record_on": False}, environ={}))
assert not placed(), "off from the start"
running.record(True)
assert placed()
running.record(False)
assert not placed()
running.record(True)
wired.stop_recording()
assert not placed()
"""


def test_nothing_of_it_is_in_the_clients_while_recording_is_off(run_python: RunPython, tmp_path: Path) -> None:
    (tmp_path / "recording").mkdir()
    run_python(LIVE, str(tmp_path / "recording"))
