"""Plain threads and their GIL: `on_threads WHAT COUNT`, recorded by GREENLANE_RECORD_FOLDER.

A victim uses CPU, then waits for one thing while hogs hold the GIL: for a reply of another process, for a timer, for a
lock that another thread gives back. One hog computes in Python, which the interval cuts, one in C, which nothing does.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable

from tests.record.truths.known import AWAY_NS, HOG_NS, MOMENT, MOMENTS, OWN_NS, Known, Replying, burn, ran, told

from greenlane.record.jobs import job
from greenlane.wiring.recording import start_recording

_others: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()


def _hog(stop: list[bool]) -> None:
    while not stop:
        with job("hog"):
            burn(HOG_NS, "hog")
        time.sleep(0.004)


def _times(expression: str) -> float:
    """How many times `expression` fills the hog's time: least of some."""
    code = compile(expression.format(100_000), "hog", "eval")
    least_ns = HOG_NS
    for _ in range(5):
        from_ns = time.thread_time_ns()
        eval(code)
        least_ns = min(least_ns, time.thread_time_ns() - from_ns)
    return HOG_NS / least_ns


def _hog_in_c(stop: list[bool]) -> None:
    expression = "sum(range({}))"
    code = compile(expression.format(int(100_000 * _times(expression))), "hog", "eval")
    while not stop:
        with job("hog in C"):
            from_ns, from_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
            eval(code)
            # It gives up the GIL when the sum is there, not before: what it waits comes behind what it computes.
            ran.append((from_ns, from_ns + time.thread_time_ns() - from_cpu_ns, "hog in C", 1))
        time.sleep(0.005)


def _works_for_others() -> None:
    while act := _others.get():
        act()


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
    time.sleep(AWAY_NS / 1e9)
    known.resumed()
    known.io_until(known.left_ns + AWAY_NS)


def for_lock(known: Known, _replying: Replying) -> None:
    """Wait for a lock that another thread's job lets go and then computes on."""
    lock, moments = threading.Lock(), list[int]()
    lock.acquire()

    def releases() -> None:
        time.sleep(AWAY_NS / 1e9)
        with job("setter"):
            moments.append(time.monotonic_ns())
            lock.release()
            burn(OWN_NS, "setter")

    _others.put(releases)
    known.left()
    lock.acquire()
    known.resumed()
    known.blocked_until(moments[0])


def main() -> None:
    """Play `what` this many times beside two threads that compute, in Python and in C; prints what is known."""
    what, count = sys.argv[1], int(sys.argv[2])
    start_recording()
    replying = Replying()
    stop: list[bool] = []
    others = [threading.Thread(target=each, args=(stop,)) for each in (_hog, _hog_in_c)]
    others.append(threading.Thread(target=_works_for_others))
    for other in others:
        other.start()
    wait = globals()[f"for_{what}"]
    for _ in range(count):
        known = Known()
        with job("victim") as number:
            burn(OWN_NS, "victim")
            wait(known, replying)
            burn(OWN_NS, "victim")
        known.ended(number)
        time.sleep(0.003)
    stop.append(True)
    _others.put(None)
    for other in others:
        other.join()
    replying.close()
    told()


if __name__ == "__main__":
    main()
