"""Each host with Greenlane, and the same without: what differs between them is ours."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import child

HERE = Path(__file__).parent
_PROGRAM = str(HERE / "traced.py")
_COMMAND = [sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())"]
_WSGI = "socketserver,wsgiref.simple_server,http.server,json,email.parser"
_GUNICORN = "gunicorn.app.wsgiapp,gunicorn.workers.gthread,gunicorn.http2.connection,json"
_LOOP = "asyncio,json,concurrent.futures.thread,ssl"

#: Named by an address, which is another one in each process; the rest is said in numbers.
_BY_ADDRESS = ("attribute ", "code ", "native ", "handler ", "logger ", "environment ")
#: Of a process that is ours from its start: threads, descriptors and signals there have no counterpart.
_OF_A_HOST = (
    "descriptor ",
    "native thread ",
    "Python thread ",
    "signal",
    "handler ",
    "exit ",
    "fork ",
    "sys.path",
    "logger ",
)

State = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Host:
    """`with_us` and `stock` are commands; {port} and {folder} stand in them."""

    with_us: Sequence[str]
    stock: Sequence[str]
    #: What the host imports anyway: a module of before can be compared.
    imports: str
    #: It writes a file by itself; else it is asked over HTTP.
    by_file: bool = False
    #: The process is one of our workers, with no stock one that has the same threads and descriptors.
    is_ours: bool = False


def _program(kind: str) -> list[str]:
    return [sys.executable, "-P", _PROGRAM, kind, "{port}"]


def _gunicorn(worker: str) -> list[str]:
    command = [sys.executable, "-P", "-m", "gunicorn", "-k", worker, "-b", "127.0.0.1:{port}", "--threads", "4"]
    return [*command, "--log-level", "warning", "--no-control-socket", "traced:wsgi"]


def _uvicorn(application: str) -> list[str]:
    command = [sys.executable, "-P", "-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}"]
    return [*command, "--log-level", "warning", application]


def _recorded(kind: str, imports: str) -> Host:
    command = [*_COMMAND, "record", "-o", "{folder}/trace.glr", "--", *_program(kind)]
    return Host(command, _program(kind), f"{imports},http.server", by_file=True)


_CELERY_MODULES = "celery.bin.worker,celery.concurrency.thread,json"
_CELERY = [sys.executable, "-P", "-m", "celery", "-A", "traced:celery", "worker", "-l", "WARNING", "-c", "4"]
_WORK = [*_COMMAND, "celery", "--task-allow", "broker", "traced:celery", "--", "-l", "WARNING"]
_SERVE = [*_COMMAND, "serve", "--kind", "wsgi", "--bind", "127.0.0.1:{port}", "--workers", "1", "traced:wsgi"]

HOSTS: Mapping[str, Host] = {
    "wsgi": Host(_program("wsgi"), _program("plain wsgi"), _WSGI),
    "asgi": Host(_uvicorn("traced:wrapped"), _uvicorn("traced:asgi"), "uvicorn,uvicorn.main,uvloop," + _LOOP),
    "aiohttp": Host(_program("aiohttp"), _program("plain aiohttp"), "aiohttp.web," + _LOOP),
    "gunicorn": Host(_gunicorn("greenlane.hosts.gunicorn.Worker"), _gunicorn("gthread"), _GUNICORN),
    "health": Host(_program("health"), _program("plain wsgi"), _WSGI),
    "serve": Host(_SERVE, _gunicorn("gthread"), _GUNICORN, is_ours=True),
    "work": Host(_WORK, [*_CELERY, "-P", "threads"], _CELERY_MODULES, by_file=True, is_ours=True),
    "record threads": _recorded("threads", "json,socket"),
    "record asyncio": _recorded("asyncio", _LOOP),
    "record uvloop": _recorded("uvloop", "uvloop," + _LOOP),
    "record gevent": _recorded("gevent", "json"),
    "record wsgi": Host(
        [*_COMMAND, "record", "-o", "{folder}/trace.glr", "--", *_program("plain wsgi")], _program("plain wsgi"), _WSGI
    ),
}


def trace(name: str, folder: Path) -> State:
    """State -> name -> (before, after) of what Greenlane has changed in the process of a host."""
    host = HOSTS[name]
    with_us, stock = (_run(host, command, folder) for command in (host.with_us, host.stock))
    found: State = {}
    for state, seen in with_us.items():
        theirs = stock[state]["changed"]
        skipped = _OF_A_HOST if host.is_ours else ("?",)
        changed = {
            name: said
            for name, said in seen["changed"].items()
            if not (_is_theirs(name, said, theirs) or name.startswith(skipped))
        }
        found[state] = changed | {name: "ours" for name in seen["ours"] if name not in changed}
    return found


def _is_theirs(name: str, said: Any, theirs: Mapping[str, Any]) -> bool:
    """Whether the host itself does it: objects have other addresses in each process, numbers are the same."""
    return name in theirs and (name.startswith(_BY_ADDRESS) or said == theirs[name])


def _run(host: Host, command: Sequence[str], folder: Path) -> dict[str, Any]:
    port, file = child.free_port(), folder / f"steps-{child.free_port()}.json"
    filled = [part.format(port=port, folder=folder) for part in command]
    env = {
        "GREENLANE_CONFIG": "", "TRACE_FILE": str(file), "TRACE_IMPORTS": host.imports,
        "LD_BIND_NOW": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE / "site"), os.environ.get("PYTHONPATH", "")])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    with child.Child(filled, env=env, cwd=folder) as process:
        end_s = time.monotonic() + 60
        while time.monotonic() < end_s:
            body = (file.read_bytes() if file.exists() else b"") if host.by_file else _asked(port)
            with contextlib.suppress(ValueError):
                found: dict[str, Any] = json.loads(body)
                return found
            time.sleep(0.05)
        raise AssertionError(f"no answer; it said: {process.output}")


def _asked(port: int) -> bytes:
    """Warm up, then the steps."""
    body = b""
    for path in (*["/"] * 10, "/steps"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            body = connection.getresponse().read()
    return body
