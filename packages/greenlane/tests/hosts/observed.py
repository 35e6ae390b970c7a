"""Unchanged servers under `greenlane record`, and what stands in their recordings."""

from __future__ import annotations

import http.client
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.record.command import GREENLANE, environment, recorded

from greenlane_tools.reader import Recording
from greenlane_tools.reader.rows import Job
from tests.child import Child
from tests.fixtures import StartProcess


def _kernel_stamps() -> int:
    """Give a socket that asks for stamps. The kernel stamps nothing until some ms after the machine's first one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        asks.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        return asks.detach()


#: Open for as long as tests run: else the first request to a server might have no stamp.
STAMPED = _kernel_stamps()

#: A Flask application: work, a failure, a stream; `python app.py PORT` is its development server.
FLASK = """
import sys, time
from flask import Flask
app = Flask(__name__)

@app.get("/quote/<int:number>")
def quote(number):
    time.sleep(0.02)
    return f"quote {number}"

@app.get("/boom")
def boom():
    raise ValueError("boom")

@app.get("/stream")
def stream():
    def pieces():
        for _ in range(3):
            time.sleep(0.02)
            yield b"piece "
    return app.response_class(pieces())

@app.get("/file")
def file():
    from flask import send_file
    return send_file(__file__)

if __name__ == "__main__":
    app.run(port=int(sys.argv[1]))
"""

#: What a plain WSGI application answers, as a list of one piece.
PLAIN = """
import time
def app(environ, start_response):
    time.sleep(0.02)
    if environ["PATH_INFO"] == "/boom":
        raise ValueError("boom")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"plain"]
"""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]


class Service:
    """A server under `greenlane record`, in r.glr of `folder`."""

    def __init__(self, start: StartProcess, folder: Path, port: int, argv: Sequence[str], **env: str) -> None:
        self._folder = folder
        self.port = port
        command = [*GREENLANE, "record", "-o", "r.glr", "--", *argv]
        self.process: Child = start(command, cwd=folder, env=environment(**env), port=port)

    def get(self, path: str, method: str = "GET", *, body: bytes | None = None, **headers: str) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, body, headers={name.replace("_", "-"): text for name, text in headers.items()})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return Answer(response.status, content, {name.lower(): text for name, text in response.getheaders()})

    def stop(self) -> Recording:
        """End it as an operator would, and give what was recorded."""
        self.process.signal(signal.SIGTERM)
        self.process.wait_exit()
        return recorded(self._folder)


def gunicorn(*options: str, port: int) -> list[str]:
    """A command line of gunicorn for `app.py`."""
    return [sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{port}", *options, "app:app"]


def only(recording: Recording, route: str) -> Job:
    """The one job of a route."""
    (job,) = (job for job in recording.jobs if job.route == route)
    return job


def seconds_ago(seconds: float) -> str:
    """What a front writes that had the request so long ago."""
    return f"t={time.time() - seconds:.6f}"
