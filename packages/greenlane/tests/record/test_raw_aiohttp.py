"""aiohttp's low-level server, whose requests have no routes: it answers as without us, and each request is a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.command import record, recorded, routes

SOURCE = """
import asyncio
import aiohttp
from aiohttp import web

async def handler(request):
    if request.path == "/fails":
        raise RuntimeError("the application's own")
    return web.Response(text="answer")

async def main():
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        for path in ("/answers", "/answers", "/fails"):
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                print(response.status)
    await runner.cleanup()

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_low_level_server_answers_as_without_us(tmp_path: Path) -> None:
    ended = record(SOURCE, cwd=tmp_path)
    assert ended.out.split() == ["200", "200", "500"], ended.err
    assert "match_info" not in ended.err
    assert routes(recorded(tmp_path)) == {"GET /answers": 2, "GET /fails": 1}
