"""A WSGI application whose requests last until the test lets them go: no test of order needs a time.

`/…/hold?NAME` writes `NAME.begun` into the directory of the variable HELD, with the process id, and ends when
`NAME.let_go` is there; `/…/check?NAME` asks at checkpoints meanwhile, and writes `NAME.cancelled` when told to end.
`/…/burn` computes for 20 ms, `/…/echo?TEXT` answers it after a few ms, `/left` the time to its deadline in ms,
`/call?PORT` calls an upstream.
`/poison?NAME` kills its process, `/hang?NAME` never releases the GIL. Everything else is answered immediately.

It never ends to load while `stuck` is in the directory, and does not load while `broken` is in the directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import os
import signal
import time
from pathlib import Path
from typing import Any

import greenlane
from greenlane import deadline

FOLDER = Path(os.environ["HELD"])
while (FOLDER / "stuck").exists():
    time.sleep(0.01)
if (FOLDER / "broken").exists():
    raise RuntimeError("broken")


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    path, name = environ["PATH_INFO"], environ["QUERY_STRING"]
    said = [os.getpid(), environ["REMOTE_ADDR"], environ["wsgi.url_scheme"], environ.get("HTTP_X_GREENLANE_LANE", "")]
    if path.endswith(("/hold", "/check", "/poison", "/hang")):
        begin(name)
    if path.endswith("/hold"):
        while not (FOLDER / f"{name}.let_go").exists():
            time.sleep(0.002)
    elif path.endswith("/check"):
        check(name)
    elif path.endswith("/burn"):
        burn()
    elif path.endswith("/echo"):
        time.sleep(0.005)
        said = [name, environ["wsgi.input"].read().decode()]
    elif path == "/call":
        call(int(name))
    elif path == "/left":
        said = [deadline.remaining_ms()]
    elif path == "/poison":
        os.kill(os.getpid(), signal.SIGKILL)
    elif path == "/hang":
        while True:
            ctypes.PyDLL(None).sleep(3600)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [" ".join(map(str, said)).encode()]


def burn() -> None:
    until_s = time.thread_time() + 0.02
    while time.thread_time() < until_s:
        pass


def begin(name: str) -> None:
    (FOLDER / f"{name}.begun").write_text(str(os.getpid()))
    with (FOLDER / "order").open("a") as order:
        order.write(f"{name}\n")


def check(name: str) -> None:
    try:
        while True:
            time.sleep(0.002)
            greenlane.checkpoint()
    except greenlane.Cancelled:
        (FOLDER / f"{name}.cancelled").touch()
        raise
    finally:
        (FOLDER / f"{name}.ended").touch()


def call(port: int) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as upstream:
        upstream.request("GET", "/")
        upstream.getresponse().read()
