"""What a recorded process loads of us: few modules, those of what it uses, and nothing of the permits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.record.command import environment, greenlane

MOST_MODULES = 70
PERMITS = ("wiring.process", "lanes", "policy", "hosts.wsgi", "hosts.asgi", "hosts.gunicorn", "cli", "lab", "report")
SHOW = """
import json, sys
print(json.dumps([name for name in sys.modules if name.startswith("greenlane.")]))
"""


def loaded(source: str, folder: Path) -> set[str]:
    """Names without "greenlane." of what is loaded in a recorded program at its end."""
    ended = greenlane("record", "--", sys.executable, "-c", source + SHOW, cwd=folder, env=environment())
    assert ended.code == 0, ended.err
    return {name.removeprefix("greenlane.") for name in json.loads(ended.out.splitlines()[-1])}


@pytest.mark.slow
def test_a_small_program_loads_the_recorder_and_no_probe_of_what_it_does_not_use(tmp_path: Path) -> None:
    found = loaded("import socket, threading\nimport greenlane.record", tmp_path)
    assert {"record.recorder", "probes.native"} <= found
    assert not {name for name in found if name.split(".")[0] in PERMITS or name in PERMITS}
    of_libraries = {"gevent", "drivers", "calls.sql", "calls.redis", "calls.celery", "calls.aiohttp"}
    assert not {f"probes.{name}" for name in of_libraries} & found
    starts = {"hosts.observed.import_trigger", "hosts.observed.program"}
    assert not {name for name in found if name.startswith("hosts.observed.")} - starts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "host"),
    [
        ("import flask, gunicorn.workers.gthread", "gunicorn"),
        ("import flask, gevent.monkey, gunicorn.workers.ggevent", "gunicorn"),
        ("import fastapi, uvicorn, uvicorn.protocols.http.h11_impl", "asgi"),
        ("import aiohttp.web", "aiohttp"),
        ("import celery, celery.signals, celery.worker", "celery"),
        ("import flask, requests, sqlalchemy, psycopg2, psycopg, redis, httpx, celery.signals, aiohttp.web", "celery"),
    ],
)
def test_a_service_loads_its_host_and_clients_and_never_the_permits(source: str, host: str, tmp_path: Path) -> None:
    found = loaded(source, tmp_path)
    assert f"hosts.observed.{host}" in found
    assert not {name for name in found if name.split(".")[0] in PERMITS or name in PERMITS}
    assert len(found) <= MOST_MODULES
