"""What Flask views run beside gevent's hub, behind gunicorn's gevent worker."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.placement import work

from tests.child import Child, free_port

pytestmark = [pytest.mark.system, pytest.mark.slow]

APP = """
import time
import gevent
from flask import Flask, abort, g, request, session
import greenlane
from greenlane.threads.unpatched import get_native_id

app = Flask(__name__)
app.secret_key = "tests"
HUB = get_native_id()

def burn(cpu_ms):
    until = time.thread_time() + cpu_ms / 1000
    while time.thread_time() < until:
        sum(range(200))

def where():
    return "hub" if get_native_id() == HUB else "lane"

@app.before_request
def user():
    g.user = request.headers.get("X-User", "nobody")

def computed():
    burn(6)
    session["seen"] = g.user
    return {"user": g.user, "path": request.path, "where": where()}

@app.get("/whose")
def whose():
    return greenlane.run(computed)

@app.post("/total/<int:plus>")
def total(plus):
    def added(numbers):
        burn(6)
        return sum(numbers) + plus
    return str(greenlane.run(added, request.get_json()))

def broken():
    burn(6)
    raise KeyError("boom")

@app.get("/boom")
def boom():
    return greenlane.run(broken)

def left():
    burn(6)
    abort(410)

@app.get("/gone")
def gone():
    return greenlane.run(left)

@app.errorhandler(KeyError)
def of_boom(error):
    return f"handled {error} for {g.user} in the {where()}", 418

def endless():
    try:
        while True:
            burn(1)
            greenlane.checkpoint()
    except greenlane.DeadlineExceeded:
        app.config["late"] = "told"
        raise

@app.get("/late")
def late():
    with greenlane.within_ms(40):
        return greenlane.run(endless)

@app.errorhandler(greenlane.DeadlineExceeded)
def of_late(error):
    return "too late", 504

@app.get("/was-late")
def was_late():
    return app.config.get("late", "")

def long():
    burn(300)
    return where()

@app.get("/beats")
def beats():
    return greenlane.run(long)

@app.get("/light")
def light():
    gevent.sleep(0)
    return "light"
"""


class Service:
    """A gunicorn with a gevent worker."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, str, dict[str, str]]:
        connection = self.asked(path, method, body, **headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, dict(answer.getheaders())

    def asked(self, path: str, method: str = "GET", body: str = "", **headers: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, named)
        return connection

    def until(self, path: str, wanted: Callable[[str], bool]) -> str:
        give_up = time.monotonic() + work.LONGEST_S
        while not wanted(said := self.get(path)[1]):
            assert time.monotonic() < give_up, said
            time.sleep(0.005)
        return said


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One server for all tests: starting it is most of what they cost."""
    folder: Path = tmp_path_factory.mktemp("flask")
    (folder / "app.py").write_text(APP)
    port = free_port()
    argv = [sys.executable, "-m", "gunicorn", "-k", "gevent", "--bind", f"127.0.0.1:{port}", "--no-control-socket"]
    with Child([*argv, "app:app"], cwd=folder) as server:
        server.wait_port(port)
        yield Service(port)


@pytest.mark.gate
def test_what_a_view_runs_is_on_the_lane_with_its_requests_context(service: Service) -> None:
    status, text, headers = service.get("/whose", X_User="ada")
    assert (status, json.loads(text)) == (200, {"user": "ada", "path": "/whose", "where": "lane"})
    assert "session=" in headers["Set-Cookie"]


def test_what_was_read_of_a_body_is_added_up_on_the_lane(service: Service) -> None:
    numbers = json.dumps(list(range(20_000)))
    headers = {"Content_Type": "application/json"}
    assert service.get("/total/7", "POST", numbers, **headers)[:2] == (200, str(sum(range(20_000)) + 7))


def test_each_of_many_requests_gets_its_own_answer(service: Service) -> None:
    answers: dict[str, str] = {}

    def ask(user: str) -> None:
        answers[user] = json.loads(service.get("/whose", X_User=user)[1])["user"]

    asking = [threading.Thread(target=ask, args=(f"user {number}",)) for number in range(12)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert answers == {f"user {number}": f"user {number}" for number in range(12)}


def test_what_a_view_raises_goes_to_the_applications_error_functions(service: Service) -> None:
    assert service.get("/boom", X_User="ada")[:2] == (418, "handled 'boom' for ada in the hub")
    assert service.get("/gone")[0] == 410


def test_a_late_call_goes_to_an_error_function_and_ends_at_its_checkpoint(service: Service) -> None:
    assert service.get("/late")[:2] == (504, "too late")
    service.until("/was-late", lambda said: said == "told")


def test_other_requests_are_answered_meanwhile(service: Service) -> None:
    answered = 0
    with contextlib.closing(service.asked("/beats")) as connection:
        while not select.select([connection.sock], [], [], 0)[0]:
            assert service.get("/light")[1] == "light"
            answered += 1
        with connection.getresponse() as answer:
            assert answer.read() == b"lane"
    assert answered >= 5
