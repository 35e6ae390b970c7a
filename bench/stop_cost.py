"""What it costs to stop a thread, on CPython 3.12 and later: `python -m bench.stop_cost [--rounds 20]`.

Question: how much CPU does one stop take? Expected: some 60 us, as in the experiment that stops were made after (58).

A long phase computes, and short ones come one after the other: each has the long one stopped. Of one stop, by round:

- *counted*: what `greenlane top` says: the CPU clocks of the thread that asks, from before it takes the GIL until the
  events of `sys.monitoring` are set, and of the one that stands still, from its boundary until it goes on
- *process*: what the whole process uses more than for the same work uninterrupted, the long phase first and then the
  short ones: in it are also their waits, switches, and bytecode that is specialised again. Rounds in turns; the
  machine's other programs make this one vary by much more than the first
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence

from greenlane.policy import permits
from greenlane.settings import load
from greenlane.wiring import process

LONG, SHORT = "GET /long", "GET /short"
SHORTS = 150
#: Of `work`; some 0.1 ms.
ROUNDS_OF_A_SHORT = 2_000
#: Some 5 ms of the long phase for each short one.
ROUNDS_OF_THE_LONG = SHORTS * 100_000


def work(rounds: int) -> int:
    """Compute."""
    total = 0
    for each in range(rounds):
        total += each % 7
    return total


def long(running: process.Running) -> None:
    """The phase that is stopped."""
    running.open_task(LONG, time.monotonic_ns(), 0)
    work(ROUNDS_OF_THE_LONG)
    running.close()


def shorts(running: process.Running) -> None:
    """Those that it is stopped for."""
    for _ in range(SHORTS):
        running.open_task(SHORT, time.monotonic_ns(), 0)
        work(ROUNDS_OF_A_SHORT)
        running.close()
        time.sleep(0.001)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    permits.LEARN_AFTER = 100  # type: ignore[misc] # so that trifles of pinned routes take turns, too
    flags = {"mode": "on", "permits": 1, "heavy_ms": 0.1, "preempt_ms": 1.0}
    running = process.start(load(flags, environ={}), host="bench")
    if not running.set_preempt(1.0):
        print("this CPython stops no threads", file=sys.stderr)
        return 2
    for route in (LONG, SHORT):
        running.permits.pin(route, "heavy")
    numbers, counted_us, process_us = [], [], []
    for _ in range(rounds):
        before = running.counters()
        beside_ns = _cpu_ns(lambda: _run(running, [long, shorts], beside=True))
        after = running.counters()
        apart_ns = _cpu_ns(lambda: _run(running, [long, shorts], beside=False))
        number = after["stopped"] - before["stopped"]
        numbers.append(number)
        counted_us.append((after["stop_cpu_ns"] - before["stop_cpu_ns"]) / number / 1000)
        process_us.append((beside_ns - apart_ns) / number / 1000)
    running.stop()
    print(f"CPython {sys.version.split()[0]}: {sum(numbers)} stops in {rounds} rounds; us of CPU a stop, quartiles:")
    for name, values in (("counted", counted_us), ("process", process_us)):
        print(f"{name:8} " + " ".join(f"{value:8.1f}" for value in statistics.quantiles(values, n=4)))
    return 0


def _cpu_ns(run: Callable[[], None]) -> int:
    began_ns = time.process_time_ns()
    run()
    return time.process_time_ns() - began_ns


def _run(running: process.Running, parts: Sequence[Callable[[process.Running], None]], *, beside: bool) -> None:
    """Run them at the same time, or one after the other, each on a thread: the main thread is never stopped."""
    threads = [threading.Thread(target=part, args=(running,)) for part in parts]
    for thread in threads:
        thread.start()
        if not beside:
            thread.join()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
