"""A program whose long phase is stopped, for tools that watch programs: `python stopped_program.py on|off`.

Prints how often it was stopped. What `watched` runs is the same with and without stops.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from greenlane.settings import load
from greenlane.wiring import process

LONG, SHORT = "GET /long", "GET /short"


def watched(goes_on: Callable[[], bool]) -> int:
    """Loops, branches, a call and an exception."""
    total = 0
    while goes_on():
        total += 1
        if total % 2:
            total += smaller(total)
        try:
            if total % 1000 == 7:
                raise KeyError(total)
        except KeyError:
            total += 1
    return total


def smaller(total: int) -> int:
    """Something of one line."""
    return total % 3


def never(total: int) -> int:
    """Not run: a tool has to say so."""
    return total


def main() -> None:
    """The long phase, and a short one that comes when it has computed for 5 ms."""
    settings = load({"mode": sys.argv[1], "permits": 1, "preempt_ms": 2.0}, environ={})
    running = process.start(settings, host="hazards")
    running.permits.pin(LONG, "heavy")
    running.permits.pin(SHORT, "heavy")
    begun, through = threading.Event(), threading.Event()

    def long() -> None:
        running.open_task(LONG, time.monotonic_ns(), 0)
        end_s = time.thread_time() + 3
        begun.set()
        watched(lambda: not through.is_set() and time.thread_time() < end_s)
        running.close()

    def short() -> None:
        begun.wait()
        time.sleep(0.02)
        running.open_task(SHORT, time.monotonic_ns(), 0)
        until_s = time.thread_time() + 0.001
        while time.thread_time() < until_s:
            pass
        running.close()
        through.set()

    threads = [threading.Thread(target=each) for each in (long, short)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print("stopped", running.counters()["stopped"], flush=True)
    running.stop()


if __name__ == "__main__":
    main()
