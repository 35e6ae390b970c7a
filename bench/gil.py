"""To whom CPython hands the GIL: the shares that the plan's simulator has as parameters.

    python -m bench.gil [--seconds S] [--threads N] [--json]

Questions: (1) How often does a thread that makes a short call have the GIL again before the thread that it has woken?
(2) How often does the thread that asked for the GIL get it before the one that was woken? (3) How long are turns? (4)
How long does a thread that comes from a sleep wait beside N that compute?

Expected: it depends on whether another core is idle. If not, whoever was woken comes too late: single calls and series
of them keep it in 0.93 to 0.99 of the cases. If one is, a single call still keeps it in 0.6 to 0.95, a series as at the
begin of a request or an accept hardly ever: a third of its calls lose it (`mean_ms` by the time of a loss). Calls of
100 us never keep it; who asks gets it in half of the cases or more; turns are 0.1 to 0.2 ms longer than the interval;
a sleeper waits for a few turns, not for one of each thread. Run it on a machine at rest, then beside a busy core.

(2) is derived: beside exactly two threads that compute, every switch during the sleeper's wait is one that the other
of the two asked for. It gets the GIL with probability a, else the sleeper does, so that a / (1 - a) switches between
the two are seen during a wait. What this does not show: machines with one core, where nobody races, and with many.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import selectors
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from greenlane.cli.output import environment

_clock = time.perf_counter
#: A call that takes longer has lost the GIL: turns are 5 ms.
_LOST_S: Final = 0.001
_BESIDE: Final = (1, 2, 4, 8)

Row = dict[str, object]
#: What is done before, the call itself, what is done behind it.
Call = tuple[Callable[[], object], Callable[[], object], Callable[[], object]]


def burn(iterations: int) -> int:
    """Pure Python that never blocks, some 50 ns an iteration."""
    state = 1
    for _ in range(iterations):
        state = (state * 31 + 7) & 0xFFFF
    return state


@contextmanager
def _computing(count: int, switches: list[tuple[int, float]] | None = None) -> Iterator[None]:
    """So many threads that compute; `switches` gets (thread, when) where another one of them goes on."""
    stop = False
    last = -1

    def compute(me: int) -> None:
        nonlocal last
        while not stop:
            if switches is not None and last != me:
                last = me
                switches.append((me, _clock()))
            burn(20)

    threads = [threading.Thread(target=compute, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        stop = True
        for each in threads:
            each.join()


def races(threads: int, seconds: float) -> Iterator[Row]:
    """Short calls beside threads that compute, alone and in a server's series: how often the caller keeps the GIL."""
    with tempfile.TemporaryFile() as file, socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        one = socket.create_connection(listener.getsockname(), timeout=10)
        other, _ = listener.accept()
        made: list[socket.socket] = []
        with one, other, selectors.DefaultSelector() as knocking:
            knocking.register(listener, selectors.EVENT_READ)
            for name, (before, call, behind) in _calls(file.fileno(), one, other, listener, knocking, made).items():
                with _computing(threads):
                    kept, lost = _race(before, call, behind, seconds)
                yield {
                    "case": name, "threads": threads, "kept_frac": len(kept) / (len(kept) + len(lost)),
                    "samples": len(kept) + len(lost), "call_us": 1e6 * statistics.median(kept) if kept else None,
                    "a_loss_ms": 1e3 * statistics.fmean(lost) if lost else None,
                    "mean_ms": 1e3 * statistics.fmean(kept + lost),
                }  # fmt: skip
                while made:
                    made.pop().close()


def _calls(
    file: int,
    one: socket.socket,
    other: socket.socket,
    listener: socket.socket,
    knocking: selectors.BaseSelector,
    made: list[socket.socket],
) -> dict[str, Call]:
    def nothing() -> None:
        pass

    def answered() -> None:
        other.send(b"y" * 200)
        time.sleep(0.0003)

    def connect() -> None:
        made.append(socket.create_connection(listener.getsockname()))

    def asked() -> None:
        other.send(b"GET / HTTP/1.1\r\n\r\n")
        time.sleep(0.0003)

    def begin() -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(one, selectors.EVENT_READ)
            waiting.select(1)
        one.setblocking(True)
        one.setblocking(True)
        one.recv(4096)

    def knocks() -> None:
        made.append(socket.create_connection(listener.getsockname()))
        time.sleep(0.0003)

    def accept() -> None:
        os.utime(file)
        knocking.select(1)
        came, _ = listener.accept()
        came.setblocking(True)
        came.setblocking(False)
        made.append(came)

    def call() -> None:
        upstream = http.client.HTTPConnection(*listener.getsockname()[:2], timeout=10)
        upstream.request("GET", "/")
        called.append(upstream)

    def answer() -> None:
        listener.accept()[0].close()
        called.pop().close()

    def close() -> None:
        while made:
            made.pop().close()

    called: list[http.client.HTTPConnection] = []
    return {
        # As it was: with a time-out each call of it polls first.
        "begin of a request": (asked, begin, lambda: one.settimeout(10)),
        "accept": (knocks, accept, close),
        "call of an upstream": (nothing, call, answer),
        "utime": (nothing, lambda: os.utime(file), nothing),
        "send": (nothing, lambda: one.send(b"x" * 100), lambda: other.recv(4096)),
        "receive what is there": (answered, lambda: one.recv(4096), nothing),
        "connect": (nothing, connect, nothing),
        "sleep 0.1 ms": (nothing, lambda: time.sleep(0.0001), nothing),
    }


def _race(
    before: Callable[[], object], call: Callable[[], object], behind: Callable[[], object], seconds: float
) -> tuple[list[float], list[float]]:
    kept: list[float] = []
    lost: list[float] = []
    end = _clock() + seconds
    while _clock() < end:
        before()
        burn(2000)  # a tenth of a millisecond, so that whoever was woken before waits again
        began = _clock()
        call()
        took = _clock() - began
        (lost if took > _LOST_S else kept).append(took)
        behind()
    return kept, lost


def sleeper(threads: int, seconds: float) -> Row:
    """A thread that sleeps and wakes beside threads that compute."""
    switches: list[tuple[int, float]] = []
    waits: list[tuple[float, float]] = []
    draw = random.Random(threads)
    with _computing(threads, switches):
        end = _clock() + seconds
        while _clock() < end:
            pause = draw.uniform(0.002, 0.012)
            due = _clock() + pause
            time.sleep(pause)
            waits.append((due, _clock()))
    waited_ms = [1e3 * (now - due) for due, now in waits]
    between = statistics.fmean(sum(due < at < now for _, at in switches) for due, now in waits)
    turns = [1e3 * (later[1] - earlier[1]) for earlier, later in itertools.pairwise(switches)]
    return {
        "case": f"sleeper beside {threads}", "threads": threads, "samples": len(waits),
        "wait_ms": statistics.fmean(waited_ms), "wait_max_ms": max(waited_ms),
        "turn_ms": statistics.median(turns) if len(turns) > 1 else None, "switches_in_a_wait": between,
        "asker_frac": between / (1 + between) if threads == 2 else None,
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each case")
    parser.add_argument("--threads", type=int, default=3, help="that compute beside a short call")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    rows = [*races(arguments.threads, arguments.seconds), *(sleeper(each, arguments.seconds) for each in _BESIDE)]
    if arguments.json:
        print(json.dumps({"schema": "greenlane.bench.gil/1", "environment": environment(), "rows": rows}, indent=1))
        return 0
    for row in rows:
        shown = (f"{name} {value:.3g}" for name, value in row.items() if isinstance(value, (int, float)))
        print(f"{row['case']:24}", "  ".join(shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
