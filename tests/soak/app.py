"""A service in which everything happens: CPU, I/O, streams, errors, exits, forks, threads that die with a job open."""

import os
import subprocess
import threading
import time

import flask

from greenlane import phase
from greenlane.wiring import process

application = flask.Flask(__name__)
lock = threading.Lock()


def burn(cpu_ms: float) -> int:
    end_ns = time.thread_time_ns() + int(cpu_ms * 1e6)
    total = 0
    while time.thread_time_ns() < end_ns:
        total = sum(range(101))
    return total


@application.get("/heavy/<int:n>")
def heavy(n):
    time.sleep(0.002)
    total = burn(8)
    with lock:
        time.sleep(0.001)
        burn(0.5)
    return {"n": n, "sum": total}


@application.get("/light/<int:n>")
def light(n):
    for _ in range(3):
        time.sleep(0.003)
    return {"n": n, "sum": 5050}


@application.get("/stream/<int:n>")
def stream(n):
    def chunks():
        for _ in range(5):
            burn(6)
            time.sleep(0.002)
            yield f"{n}," * 2000

    return flask.Response(chunks())


@application.post("/post/<int:n>")
def post(n):
    body = flask.request.get_data()
    return {"n": n, "sum": burn(6), "length": len(body)}


@application.get("/raise/<int:n>")
def fail(n):
    with lock:
        burn(6)
        raise RuntimeError(n)


@application.get("/exit/<int:n>")
def leave(n):
    burn(6)
    raise SystemExit(n)


@application.get("/fork/<int:n>")
def fork(n):
    burn(6)
    child = os.fork()
    if not child:
        os._exit(n % 100)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    out = subprocess.run(["/bin/echo", str(n)], capture_output=True, text=True, check=True).stdout
    return {"n": int(out), "sum": 5050 + code - n % 100}


@application.get("/dies/<int:n>")
def dies(n):
    """A thread of the application opens a job and ends without closing it."""

    def body():
        running = process.running()
        if running is not None and running.open({"REQUEST_METHOD": "GET", "PATH_INFO": "/died"}, time.monotonic_ns()):
            phase.name("GET /died")
            burn(6)
            time.sleep(0)
            burn(6)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(20)
    return {"n": n, "sum": 5050 + thread.is_alive()}
