"""Green threads under gevent: `on_gevent WHAT COUNT`, recorded by GREENLANE_RECORD_FOLDER.

A victim uses CPU, then waits for one thing while hogs use the CPU: for a reply of another process, for a timer, for an
event that another greenlet sets, for its own child greenlet.
"""

from __future__ import annotations

# ruff: noqa: E402 — a patched program patches first.
import gevent.monkey

gevent.monkey.patch_all()

import sys
import time
from collections.abc import Callable

import gevent
import gevent.event
from tests.record.truths.known import AWAY_NS, HOG_NS, MOMENT, MOMENTS, OWN_NS, Known, Replying, burn, told

from greenlane.record.jobs import job
from greenlane.wiring.recording import start_recording

_others: list[Callable[[], None]] = []
_wake = gevent.event.Event()


def _hog(stop: list[bool]) -> None:
    while not stop:
        with job("hog"):
            burn(HOG_NS, "hog")
        gevent.sleep(0.001)


def _works_for_others() -> None:
    """What is not a part of the victim's job is spawned by somebody else."""
    while True:
        _wake.wait()
        _wake.clear()
        while _others:
            _others.pop()()


def _elsewhere(act: Callable[[], None]) -> None:
    _others.append(act)
    _wake.set()


def for_reply(known: Known, replying: Replying) -> None:
    """Wait for another process's reply, in a socket's `recv`."""
    replying.end.sendall(MOMENT.pack(time.monotonic_ns() + AWAY_NS))
    known.left()
    reply = replying.end.recv(MOMENTS.size)
    known.resumed()
    known.replied(reply)


def for_timer(known: Known, _replying: Replying) -> None:
    """Sleep."""
    known.left()
    gevent.sleep(AWAY_NS / 1e9)
    known.resumed()
    known.io_until(known.left_ns + AWAY_NS)


def for_event(known: Known, _replying: Replying) -> None:
    """Wait for an event that another greenlet's job sets and then computes on."""
    event, moments = gevent.event.Event(), list[int]()

    def sets() -> None:
        gevent.sleep(AWAY_NS / 1e9)
        with job("setter"):
            moments.append(time.monotonic_ns())
            event.set()
            burn(HOG_NS, "setter")

    _elsewhere(sets)
    known.left()
    event.wait()
    known.resumed()
    known.blocked_until(moments[0])


def for_child(known: Known, _replying: Replying) -> None:
    """The child does the job's work, and begins late: somebody else's turn was first."""
    begun: list[tuple[int, int, int]] = []

    def works() -> None:
        from_ns, from_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        burn(OWN_NS, "victim")
        begun.append((time.thread_time_ns() - from_cpu_ns, from_ns, time.monotonic_ns()))

    def is_first() -> None:
        with job("setter"):
            burn(HOG_NS, "setter")

    _elsewhere(is_first)
    child = gevent.spawn(works)
    known.left()
    child.join()
    known.resumed()
    known.waited_but(*begun[0])


def _victim(wait: Callable[[Known, Replying], None], replying: Replying) -> None:
    known = Known()
    with job("victim") as number:
        burn(OWN_NS, "victim")
        wait(known, replying)
        burn(OWN_NS, "victim")
    known.ended(number)


def main() -> None:
    """Play `what` this many times beside two greenlets that compute; prints what is known."""
    what, count = sys.argv[1], int(sys.argv[2])
    start_recording()
    replying = Replying()
    stop: list[bool] = []
    others = [gevent.spawn(_hog, stop), gevent.spawn(_hog, stop), gevent.spawn(_works_for_others)]
    for _ in range(count):
        gevent.spawn(_victim, globals()[f"for_{what}"], replying).get()
        gevent.sleep(0.003)
    stop.append(True)
    gevent.joinall(others[:2])
    replying.close()
    told()


if __name__ == "__main__":
    main()
