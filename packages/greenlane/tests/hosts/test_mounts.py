"""Routes of applications that are mounted in others: the framework's rule behind the path of its mount."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.hosts.observed import Service, gunicorn

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

APPS = Path(__file__).with_name("mounted_apps.py")
BELOW = {"PYTHONPATH": os.pathsep.join(filter(None, [str(APPS.parent), os.environ.get("PYTHONPATH", "")]))}
#: What is asked for -> its route.
WSGI = {
    "GET /bikes/1": "GET /bikes/<int:number>",
    "GET /flask/bikes/1": "GET /flask/bikes/<int:number>",
    "PROPFIND /flask/bikes/1": "PROPFIND /flask/bikes/<int:number>",
    "MKCALENDAR /flask/bikes/1": "MKCALENDAR /flask/bikes/<int:number>",
    "X3F9 /flask/bikes/1": "OTHER /flask/(no route)",
    "GET /flask/nowhere": "GET /flask/(no route)",
    "GET /nowhere": "GET (no route)",
    "GET /deep/flask/bikes/1": "GET /deep/flask/bikes/<int:number>",
    "GET /deep/flask/below/bikes/1": "GET /deep/flask/below/bikes/<int:number>",
    "GET /django/bikes/1": "GET /django/bikes/<int:number>",
    "GET /django/nowhere": "GET /django/(no route)",
    "GET /bottle/inner/bikes/1": "GET /bottle/inner/bikes/<number:int>",
    "GET /falcon/bikes/1": "GET /falcon/bikes/{number}",
    "GET /pyramid/bikes/1": "GET /pyramid/bikes/{number}",
}
ASGI = {
    "GET /starlette/bikes/1": "GET /starlette/bikes/{number}",
    "REPORT /starlette/bikes/1": "REPORT /starlette/bikes/{number}",
    "GET /of/anna/inner/bikes/1": "GET /of/{tenant}/inner/bikes/{number}",
    "GET /of/bert/inner/bikes/2": "GET /of/{tenant}/inner/bikes/{number}",
    "GET /fastapi/bikes/1": "GET /fastapi/bikes/{number}",
    "GET /fastapi/inner/bikes/1": "GET /fastapi/inner/bikes/{number}",
    "GET /flask/bikes/1": "GET /flask/bikes/<int:number>",
    "PURGE /flask/bikes/1": "PURGE /flask/bikes/<int:number>",
    "GET /flask/nowhere": "GET /flask/(no route)",
    "GET /django/bikes/1": "GET /django/bikes/<int:number>",
    "GET /bikes/1": "GET /bikes/<int:number>",
    "GET /nowhere": "GET (no route)",
}
AIOHTTP = {
    "GET /outer/inner/bikes/1": "GET /outer/inner/bikes/{number}",
    "PROPFIND /outer/inner/bikes/1": "PROPFIND /outer/inner/bikes/{number}",
    "GET /outer/nowhere": "GET (no route)",
}
SERVERS = {
    "gunicorn": (WSGI, lambda port: [*gunicorn(port=port)[:-1], "mounted_apps:wsgi"]),
    "uvicorn": (ASGI, lambda port: [sys.executable, "-m", "uvicorn", "--port", str(port), "mounted_apps:asgi"]),
    "aiohttp": (AIOHTTP, lambda port: [sys.executable, str(APPS), str(port)]),
}


@pytest.mark.parametrize("server", SERVERS)
def test_a_mounted_application_s_routes_are_its_rules(
    server: str, tmp_path: Path, start_process: StartProcess, free_port: int
) -> None:
    wanted, command = SERVERS[server]
    service = Service(start_process, tmp_path, free_port, command(free_port), **BELOW)
    for asked in wanted:
        method, path = asked.split(" ")
        service.get(path, method=method)
    jobs = sorted(service.stop().jobs, key=lambda job: job.arrival_ns)
    assert dict(zip(wanted, [job.route for job in jobs], strict=True)) == wanted
