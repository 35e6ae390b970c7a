"""`greenlane record` runs a server of another environment without Greenlane: unchanged, with every job.

With `WHEELS` (a folder of our wheels, `make wheel` writes `dist`) also the wheels alone: installed with nothing else.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from greenlane_tools.reader import open_recording
from tests.child import Child, free_port
from tests.system.environments import environment
from tests.where import ROOT

OURS = Path(sys.executable).parent
WHEELS = Path(os.environ.get("WHEELS", ROOT / "dist"))
#: Of gunicorn 20, which imports it.
PKG_RESOURCES = "setuptools<81"
REQUESTS = 5

APPLICATIONS = """
def computed():
    return str(sum(n * n for n in range(100_000)))


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [computed().encode()]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    import uvicorn.protocols.http.auto

    protocol = uvicorn.protocols.http.auto.AutoHTTPProtocol.__name__
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-protocol", protocol.encode())]})
    await send({"type": "http.response.body", "body": computed().encode()})
"""

TASKS = """
import celery

app = celery.Celery("tasks", broker="filesystem://")
app.conf.broker_transport_options = dict.fromkeys(["data_folder_in", "data_folder_out"], "queue")
app.conf.worker_hijack_root_logger = False


@app.task(name="price")
def price():
    return sum(n * n for n in range(100_000))
"""


def jobs(recording: Path) -> Counter[str]:
    return Counter(job.route for job in open_recording(recording).jobs)


def recorded(greenlane: Path, server: Sequence[str | Path], port: int, folder: Path) -> Counter[str]:
    """Jobs by route of a server that has answered `REQUESTS` requests."""
    recording = folder / "shop.glr"
    with Child([greenlane, "record", "-o", recording, "--", *server], cwd=folder) as child:
        child.wait_port(port)
        for _ in range(REQUESTS):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/quick", timeout=20) as answer:
                assert answer.read().isdigit()
                assert answer.headers.get("x-protocol") in (None, "H11Protocol")
        child.end(grace_s=30)
        assert "not recorded" not in child.output, child.output
    return jobs(recording)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APPLICATIONS)
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "queue").mkdir()
    return tmp_path


def gunicorn(bin_folder: Path, port: int, worker: str) -> list[str | Path]:
    options = ["--bind", f"127.0.0.1:{port}", "-k", worker, *(["--threads", "4"] if worker == "gthread" else [])]
    return [bin_folder / "gunicorn", *options, "shop:wsgi"]


LATER = pytest.mark.soak


#: Every other one is for `make soak`.
GUNICORNS = ("20.0.4", "20.1.0", "21.2.0", "22.0.0", "23.0.0", "24.1.1", "25.3.0", "26.2.0", "27.0.1")
IN_THE_GATE = ("23.0.0", "gthread")


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize(
    ("release", "worker"),
    [
        pytest.param(*case, marks=[] if case == IN_THE_GATE else [LATER])
        for case in itertools.product(GUNICORNS, ("sync", "gthread"))
    ],
)
def test_gunicorn_of_another_environment_is_recorded(release: str, worker: str, folder: Path) -> None:
    theirs = environment([f"gunicorn=={release}", *([PKG_RESOURCES] if release < "21" else [])])
    port = free_port()
    assert recorded(OURS / "greenlane", gunicorn(theirs, port, worker), port, folder) == {"GET /quick": REQUESTS}


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize(
    "release", ["0.35.0", pytest.param("0.30.0", marks=LATER), pytest.param("0.23.0", marks=LATER)]
)
def test_uvicorn_of_another_environment_is_recorded_and_keeps_its_protocol(release: str, folder: Path) -> None:
    theirs = environment([f"uvicorn=={release}"])
    port = free_port()
    server = [theirs / "uvicorn", "--port", str(port), "shop:asgi"]
    assert recorded(OURS / "greenlane", server, port, folder) == {"GET /quick": REQUESTS}


@pytest.mark.slow
@pytest.mark.system
@LATER
@pytest.mark.parametrize("release", ["5.3.6", "5.4.0", "5.6.3", "5.7.0"])
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_celery_of_another_environment_is_recorded(release: str, pool: str, folder: Path) -> None:
    theirs = environment([f"celery=={release}"])
    send = "import tasks; [tasks.price.delay() for _ in range(5)]"
    subprocess.run([theirs / "python", "-c", send], cwd=folder, check=True, timeout=60)
    worker = [theirs / "celery", "-A", "tasks", "worker", "-P", pool, "-c", "2", "-l", "INFO"]
    with Child([OURS / "greenlane", "record", "-o", folder / "tasks.glr", "--", *worker], cwd=folder) as child:
        child.wait_output(r"(?s)(succeeded.*){5}", timeout_s=60)
        child.end(grace_s=30)
    assert jobs(folder / "tasks.glr") == {"price": 5}


# --- the wheels alone


def pythons() -> Iterator[str]:
    """Each CPython of this machine for which there is a wheel."""
    found = subprocess.run([ROOT / "scripts/toolchain", "interpreters"], capture_output=True, text=True, check=False)
    for line in found.stdout.splitlines():
        version, _, python = line.partition(" ")
        if list(WHEELS.glob(f"greenlane_tools-*-cp{version.replace('.', '')}-*.whl")):
            yield python


@pytest.mark.slow
@pytest.mark.system
@LATER
def test_the_wheels_of_the_diagnosis_stand_alone_on_each_cpython(folder: Path) -> None:
    found = list(pythons())
    if not found:
        pytest.skip(f"no wheels in {WHEELS}: make wheel")
    for python in found:
        # Without an index: whatever it needs is among the wheels.
        ours = environment(["--no-index", "--find-links", str(WHEELS), "greenlane[tools]"], python)
        theirs, port = environment(["gunicorn==23.0.0"], python), free_port()
        found_jobs = recorded(ours / "greenlane", gunicorn(theirs, port, "gthread"), port, folder)
        assert found_jobs == {"GET /quick": REQUESTS}
        said = ran(ours / "greenlane", "report", "shop.glr", folder=folder)
        assert re.search(r"^GET /quick +5 ", said, re.MULTILINE), said
        for command in (["plan", "shop.glr"], ["lab", "--help"], ["top", "--help"], ["demo", "--help"]):
            ran(ours / "greenlane", *command, folder=folder)
        (folder / "shop.glr").unlink()


def ran(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, timeout=60, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
