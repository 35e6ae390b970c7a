"""`greenlane.health` of several processes: who answers for whom, and what a forked child has."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
pytestmark = [pytest.mark.slow, pytest.mark.system]

_CHILD = """
import gc, os, socket, sys
import greenlane

address = "127.0.0.1:" + sys.argv[1]
greenlane.health(address)
pid = os.fork()
if pid == 0:
    names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
    os._exit(sum("greenlane" in name for name in names) + len(gc.callbacks))
assert os.waitpid(pid, 0)[1] == 0
def ask():
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as client:
        client.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        return client.makefile("rb").read()
assert b'"reason":"fine"' in ask()
with socket.create_server(("127.0.0.1", int(sys.argv[2]))):
    try:
        greenlane.health("127.0.0.1:" + sys.argv[2])
    except greenlane.GreenlaneError as error:
        print(error)
try:
    greenlane.health("nowhere")
except greenlane.GreenlaneError as error:
    print(error)
"""
_CELERY = """
import os
import greenlane
from celery import Celery

app = Celery("orders", broker="memory://")
greenlane.health(os.environ["HEALTH"])
"""


_POOLS = """
import concurrent.futures, multiprocessing, os, sys
import greenlane

address = "127.0.0.1:" + sys.argv[1]
greenlane.health(address)

def threads():
    return sum("greenlane" in open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task"))

def again():
    before = threads()
    greenlane.health(address)
    return before + threads()

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
            print(pool.submit(again).result())
        with context.Pool(1) as pool:
            print(pool.apply(again))
    print(threads())
"""
_FORKS = """
import os
import greenlane

greenlane.health(os.environ["HEALTH"])

def application(environ, start_response):
    if (pid := os.fork()) == 0:
        names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
        os._exit(sum("greenlane" in name for name in names))
    start_response("200 OK", [])
    return [str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode()]
"""


def pids_once(port: int, wanted: Callable[[int, dict[str, Any]], bool]) -> list[int]:
    """The processes of the answer once it is as wanted."""
    until, told = time.monotonic() + 30, ""
    while time.monotonic() < until:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=0.5)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/ready")
            answer = connection.getresponse()
            told = answer.read().decode()
            document = json.loads(told)
            if wanted(answer.status, document):
                return [each["pid"] for each in document["processes"]]
    raise AssertionError(f"the last answer was {told}")


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("preload", [False, True])
def test_workers_answer_for_each_other(preload: bool, free_ports: Callable[[], int], start_process: Any) -> None:
    port, health = free_ports(), free_ports()
    command = [sys.executable, "-m", "gunicorn", "-k", "gthread", "-w", "2", "-b", f"127.0.0.1:{port}"]
    command += ["--no-control-socket", *(["--preload"] if preload else []), "troubled:wsgi"]
    environment = {"HEALTH": f"127.0.0.1:{health}", "PYTHONPATH": str(HERE)}
    master = start_process(command, env={**os.environ, **environment}, cwd=HERE, port=port)
    pids = pids_once(health, lambda status, told: status == 200 and len(told["processes"]) == 2)
    assert master.pid not in pids
    with stopped(pids[0]):
        silent = "1 of 2 processes: the process does not answer"
        pids_once(health, lambda status, told: status == 200 and told["reason"].startswith(silent))


def test_workers_of_uvicorn_answer(free_ports: Callable[[], int], start_process: Any) -> None:
    port, health = free_ports(), free_ports()
    command = [sys.executable, "-m", "uvicorn", "--workers", "2", "--port", str(port), "troubled:asgi"]
    environment = {"HEALTH": f"127.0.0.1:{health}", "PYTHONPATH": str(HERE)}
    start_process(command, env={**os.environ, **environment}, cwd=HERE, port=port)
    pids_once(health, lambda status, told: status == 200 and len(told["processes"]) == 2)


_RUNS = """
import os, sys
import uvicorn
import greenlane

if __name__ == "__main__":
    greenlane.health(os.environ["HEALTH"])
    uvicorn.run(sys.argv[2], port=int(sys.argv[1]), workers=2, log_level="warning")

async def application(scope, receive, send):
    pass
"""


def test_a_supervisor_of_uvicorn_says_where_the_line_belongs(
    free_ports: Callable[[], int], start_process: Any, tmp_path: Path
) -> None:
    port, health = free_ports(), free_ports()
    (tmp_path / "runs.py").write_text(_RUNS)
    environment = {"HEALTH": f"127.0.0.1:{health}", "PYTHONPATH": f"{HERE}{os.pathsep}{tmp_path}"}
    start_process([sys.executable, "runs.py", str(port), "runs:application"], env=environment, cwd=tmp_path, port=port)
    supervisor = "only uvicorn's supervisor answers: call greenlane.health in the module that its workers import"
    pids_once(health, lambda status, told: status == 503 and told["reason"] == supervisor)
    port = free_ports()
    environment["HEALTH"] = f"127.0.0.1:{(health := free_ports())}"
    start_process([sys.executable, "runs.py", str(port), "troubled:asgi"], env=environment, cwd=tmp_path, port=port)
    pids_once(health, lambda status, told: status == 200 and told["reason"] == "fine" and len(told["processes"]) == 2)


def test_pools_of_processes_do_not_answer(free_ports: Callable[[], int], run_python: Any, tmp_path: Path) -> None:
    (file := tmp_path / "pools.py").write_text(_POOLS)
    told = run_python(
        f"import runpy, sys; sys.argv = [{str(file)!r}, '{free_ports()}']; "
        f"runpy.run_path({str(file)!r}, run_name='__main__')"
    )
    assert told.stdout.split() == ["0", "0", "0", "0", "2"]


def test_a_child_of_a_worker_does_not_answer(free_ports: Callable[[], int], start_process: Any, tmp_path: Path) -> None:
    port, health = free_ports(), free_ports()
    (tmp_path / "forks.py").write_text(_FORKS)
    command = [sys.executable, "-m", "gunicorn", "--preload", "-b", f"127.0.0.1:{port}", "--no-control-socket"]
    environment = {"HEALTH": f"127.0.0.1:{health}", "PYTHONPATH": str(tmp_path)}
    start_process([*command, "forks:application"], env={**os.environ, **environment}, cwd=tmp_path, port=port)
    pids_once(health, lambda status, told: status == 200)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"0"


def test_each_process_of_celery_answers(free_ports: Callable[[], int], start_process: Any, tmp_path: Path) -> None:
    health = free_ports()
    (tmp_path / "orders.py").write_text(_CELERY)
    command = [sys.executable, "-m", "celery", "-A", "orders", "worker", "-c", "2", "-P", "prefork", "-l", "WARNING"]
    environment = {"HEALTH": f"127.0.0.1:{health}", "PYTHONPATH": str(tmp_path)}
    worker = start_process(command, env={**os.environ, **environment}, cwd=tmp_path)
    pids = pids_once(health, lambda status, told: status == 200 and len(told["processes"]) == 2)
    assert worker.pid not in pids


def test_a_forked_child_has_nothing_of_it_and_a_taken_port_is_named(
    free_ports: Callable[[], int], run_python: Any
) -> None:
    said = run_python(_CHILD, str(free_ports()), str(taken := free_ports())).stdout
    assert f"answer health: bind='127.0.0.1:{taken}', expected host:port where this process can listen" in said
    assert "answer health: bind='nowhere', expected host:port" in said
