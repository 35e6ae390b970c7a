"""A gevent program whose jobs' time is known by construction: tells it as JSON, and records itself.

A victim uses CPU, then waits for one thing while hogs use the CPU: for a reply of another process, which comes at a
moment that the victim chose; for a timer; for an event that a third greenlet sets; for its own child greenlet. What
happened is known from the program's own clocks: CPU by the thread's CPU clock, the reply's moment by the replying
process, the resumption by the victim's first instruction after it.

Arguments: folder of the recording, what victims wait for (reply, timer, event, child), how many.
Prints: {"jobs": {number: {"cpu_ns", "blocked_ns", "wait_ns", ...}}, "blame": {route: ns}}. The blame of a stretch in
which a culprit stood on the CPU's queue itself is the operating system's, `os`.
"""

from __future__ import annotations

# ruff: noqa: E402 — a patched program patches first.
import gevent.monkey

gevent.monkey.patch_all()

import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable

import gevent
import gevent.event

from greenlane._native import Recorder, calls_install
from greenlane.probes import gevent as probe
from greenlane.record.jobs import job

MS = 1_000_000
OWN_NS = 2 * MS
AWAY_NS = 12 * MS
HOG_NS = 8 * MS
MOMENT = struct.Struct("<Q")

REPLYING = """
import socket, struct, sys, time
MOMENT = struct.Struct("<Q")
end = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while asked := end.recv(MOMENT.size):
    (at_ns,) = MOMENT.unpack(asked)
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        if left_ns > 2_000_000:
            time.sleep((left_ns - 1_000_000) / 1e9)
    end.sendall(MOMENT.pack(time.monotonic_ns()))
"""

# When each route ran, and with how much CPU: (from, to, cpu, route).
ran: list[tuple[int, int, int, str]] = []


def burn(cpu_ns: int, route: str) -> int:
    """Use CPU of this thread, and give how much."""
    wall_ns, from_ns = time.monotonic_ns(), time.thread_time_ns()
    while (used_ns := time.thread_time_ns() - from_ns) < cpu_ns:
        pass
    ran.append((wall_ns, time.monotonic_ns(), used_ns, route))
    return used_ns


def hog(stop: list[bool]) -> None:
    while not stop:
        with job("hog"):
            burn(HOG_NS, "hog")
        gevent.sleep(0.001)


def for_reply(end: socket.socket) -> tuple[int, int, int]:
    """Give when it left, when the reply was there, and when it was resumed."""
    end.sendall(MOMENT.pack(time.monotonic_ns() + AWAY_NS))
    left_ns = time.monotonic_ns()
    reply = end.recv(MOMENT.size)
    return left_ns, MOMENT.unpack(reply)[0], time.monotonic_ns()


def for_timer(_end: socket.socket) -> tuple[int, int, int]:
    left_ns = time.monotonic_ns()
    gevent.sleep(AWAY_NS / 1e9)
    return left_ns, left_ns + AWAY_NS, time.monotonic_ns()


def for_event(_end: socket.socket) -> tuple[int, int, int]:
    event, moments = gevent.event.Event(), list[int]()

    def sets() -> None:
        gevent.sleep(AWAY_NS / 1e9)
        with job("setter"):
            moments.append(time.monotonic_ns())
            event.set()
            burn(HOG_NS, "setter")

    # Not a part of the victim's job.
    setters.append(sets)
    wake_setters.set()
    left_ns = time.monotonic_ns()
    event.wait()
    return left_ns, moments[0], time.monotonic_ns()


def for_child(_end: socket.socket) -> tuple[int, int, int]:
    """The child does the job's work, and begins late: somebody else's turn was first."""
    begun: list[int] = []

    def works() -> None:
        begun.append(time.monotonic_ns())
        burn(OWN_NS, "victim")

    def is_first() -> None:
        with job("setter"):
            burn(HOG_NS, "setter")

    setters.append(is_first)
    wake_setters.set()
    child = gevent.spawn(works)
    left_ns = time.monotonic_ns()
    child.join()
    return left_ns, left_ns, begun[0]


setters: list[Callable[[], None]] = []
wake_setters = gevent.event.Event()


def start_setters() -> None:
    while True:
        wake_setters.wait()
        wake_setters.clear()
        while setters:
            setters.pop()()


def victim(wait: Callable[[socket.socket], tuple[int, int, int]], end: socket.socket) -> tuple[int, dict[str, int]]:
    with job("victim") as number:
        cpu_ns = burn(OWN_NS, "victim")
        left_ns, ready_ns, resumed_ns = wait(end)
        cpu_ns += burn(OWN_NS, "victim")
        cpu_ns += OWN_NS if wait is for_child else 0
    return number, {
        "cpu_ns": cpu_ns,
        "blocked_ns": ready_ns - left_ns,
        "wait_ns": resumed_ns - ready_ns,
        "ready_ns": ready_ns,
        "resumed_ns": resumed_ns,
    }


def main() -> None:
    folder, what, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    recorder = Recorder()
    recorder.start(folder, max_bytes=1 << 28, about="{}")
    print(calls_install(), file=sys.stderr)
    probe.install()
    listener = socket.create_server(("127.0.0.1", 0))
    replying = subprocess.Popen([sys.executable, "-c", REPLYING, str(listener.getsockname()[1])])
    end, _ = listener.accept()
    stop: list[bool] = []
    others = [gevent.spawn(hog, stop), gevent.spawn(hog, stop), gevent.spawn(start_setters)]
    told = {}
    for _ in range(count):
        number, did = gevent.spawn(victim, globals()[f"for_{what}"], end).get()
        told[number] = did
        gevent.sleep(0.003)
    stop.append(True)
    gevent.joinall(others[:2])
    end.close()
    replying.wait()
    recorder.stop()
    blame: dict[str, int] = {}
    for did in told.values():
        for from_ns, to_ns, cpu_ns, route in ran:
            both_ns = min(to_ns, did["resumed_ns"]) - max(from_ns, did["ready_ns"])
            if both_ns > 0:
                own_ns = both_ns * cpu_ns // max(to_ns - from_ns, cpu_ns)
                blame[route] = blame.get(route, 0) + own_ns
                blame["os"] = blame.get("os", 0) + both_ns - own_ns
    print(json.dumps({"jobs": told, "blame": blame}))


if __name__ == "__main__":
    main()
