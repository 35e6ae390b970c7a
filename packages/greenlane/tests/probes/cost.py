"""What a probe costs: `python -m tests.probes.cost` prints nanoseconds per call; no test, timings fail nothing.

*own* is the probe's share: the call with its probe, minus the call without, minus `phase.leave` and `phase.enter`
called by themselves on the same thread. The least of many short runs, so other load on the machine hardly shows.
"""

from __future__ import annotations

import queue
import select
import socket
import threading
import time
import timeit
from types import SimpleNamespace
from typing import Any

from greenlane import phase
from greenlane.settings import load
from greenlane.wiring import process

REPEATS, CALLS = 60, 3_000
PEEK = int(socket.MSG_PEEK)

# What is timed: name -> (statement, phase ends in it).
STATEMENTS = {
    "socket.recv": ("near.recv(0)", 1),
    "socket.recv_into": ("near.recv_into(buffer)", 1),
    "socket.recv, with a flag": (f"near.recv(0, {PEEK})", 1),
    "socket.recvmsg": ("near.recvmsg(0)", 1),
    "select.select": ("select.select([], [near], [], 1)", 1),
    "Lock, with": ("with lock: pass", 0),
    "gethostbyname, numeric": ("socket.gethostbyname('127.0.0.1')", 1),
    "socket.recv, non-blocking": ("idle.recv(0)", 0),
    "Event.wait, set already": ("event.wait()", 0),
    "Queue.put and .get, not empty": ("waiting.put(1); waiting.get()", 0),
    "Flask, route named": ("Flask.full_dispatch_request(app)", 0),
    "Django, route named": ("BaseHandler.resolve_request(None, request)", 0),
}


def names() -> dict[str, Any]:
    from django.core.handlers.base import BaseHandler
    from flask import Flask

    near, far = socket.socketpair()
    idle, other = socket.socketpair()
    idle.setblocking(False)
    for end in (far, other):
        end.send(b"x" * 8)
    event = threading.Event()
    event.set()
    app = Flask("cost")
    app.add_url_rule("/bikes/<number>", view_func=lambda number: "bike")
    app.test_request_context("/bikes/7").push()
    match = SimpleNamespace(route="bikes/<number>", func=None)
    # The framework's own work is left out: what remains is the probe.
    Flask.full_dispatch_request = lambda self: None  # type: ignore[assignment, method-assign, return-value]
    BaseHandler.resolve_request = lambda self, request: match
    waiting: queue.Queue[int] = queue.Queue()
    lock = threading.Lock()
    request = SimpleNamespace(method="GET")
    buffer = bytearray()
    assert [select, near, far, idle, other, buffer, event, waiting, lock, app, match, request]
    return {**globals(), **locals()}


def nanoseconds(statement: str, known: dict[str, Any]) -> float:
    return min(timeit.repeat(statement, number=CALLS, repeat=REPEATS, globals=known)) / CALLS * 1e9


def measured(known: dict[str, Any]) -> dict[str, float]:
    return {name: nanoseconds(statement, known) for name, (statement, _) in STATEMENTS.items()}


def main() -> None:
    known = names()
    bare = measured(known)
    running = process.start(load({"mode": "on"}, environ={}), host="cost")
    pair = "phase.leave(0); phase.enter()"
    without, pair_without = measured(known), nanoseconds(pair, {"phase": phase})
    assert running.open({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, time.monotonic_ns())
    phase.name("GET /cost")
    with_job, pair_with = measured(known), nanoseconds(pair, {"phase": phase})
    running.close()
    running.stop()
    print(f"{'ns a call':32} {'bare':>6} {'own, no job':>12} {'own, job':>9}")
    print(f"{'phase.leave and .enter':32} {'':6} {pair_without:12.0f} {pair_with:9.0f}")
    for name, (_, ends) in STATEMENTS.items():
        base = bare[name]
        own = without[name] - base - ends * pair_without, with_job[name] - base - ends * pair_with
        print(f"{name:32} {base:6.0f} {own[0]:12.0f} {own[1]:9.0f}")


if __name__ == "__main__":
    main()
