"""What the recording adds to one greenlet switch.

Question: ns that a switch costs more with the probe installed and recording, and with it installed and off. Expected:
at most 250 ns more while recording; a few ns while off. Three loads, each in turns without, off and on, least of many:

- *sleep(0)*: queue a callback, switch to the hub, be switched back: two switches and a queued callback a round
- *timer*: `gevent.sleep(1e-6)` in 50 greenlets: two switches, a timer and a share of a poll
- *raw*: two plain greenlets that switch to each other: the trace function and nothing else

Usage: python bench/switch_cost.py [--rounds 30]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable

import gevent
import greenlet

from greenlane._native import Recorder, calls_install, calls_uninstall
from greenlane.probes import gevent as probe

SWITCHES = 2_000
TARGET_NS = 250


def sleep_zero() -> float:
    """ns a switch."""
    from_ns = time.perf_counter_ns()
    for _ in range(SWITCHES // 2):
        gevent.sleep(0)
    return (time.perf_counter_ns() - from_ns) / SWITCHES


def timer() -> float:
    """ns a switch."""
    greenlets = 50
    each = SWITCHES // 2 // greenlets

    def sleeps() -> None:
        for _ in range(each):
            gevent.sleep(1e-6)

    from_ns = time.perf_counter_ns()
    gevent.joinall([gevent.spawn(sleeps) for _ in range(greenlets)])
    return (time.perf_counter_ns() - from_ns) / SWITCHES


def raw() -> float:
    """ns a switch."""
    main = greenlet.getcurrent()

    def back() -> None:
        while True:
            main.switch()

    other = greenlet.greenlet(back)
    switch = other.switch
    from_ns = time.perf_counter_ns()
    for _ in range(SWITCHES // 2):
        switch()
    return (time.perf_counter_ns() - from_ns) / SWITCHES


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        recorder.start(folder, max_bytes=1 << 26, about="{}")
        loads: list[Callable[[], float]] = [sleep_zero, timer, raw]
        least = {(load.__name__, state): 1e9 for load in loads for state in ("without", "off", "on")}
        for _ in range(rounds):
            for load in loads:
                for state in ("without", "off", "on"):
                    cost_ns = measured(load, state, recorder)
                    key = load.__name__, state
                    least[key] = min(least[key], cost_ns)
                    recorder.flush()
        lost = recorder.stats()["lost"]
        recorder.stop()
    print(f"ns a switch, least of {rounds}; {lost} events lost; target: on - without <= {TARGET_NS}")
    print("load         without      off       on   off adds  on adds")
    for load in loads:
        without, off, on = (least[load.__name__, state] for state in ("without", "off", "on"))
        print(f"{load.__name__:11} {without:8.0f} {off:8.0f} {on:8.0f} {off - without:10.0f} {on - without:8.0f}")


def measured(load: Callable[[], float], state: str, recorder: Recorder) -> float:
    """Run `load` once in `state`."""
    if state == "without":
        recorder.off()
        return load()
    calls_install()
    probe.install()
    (recorder.on if state == "on" else recorder.off)()
    gevent.sleep(0)
    try:
        return load()
    finally:
        recorder.off()
        probe.uninstall()
        calls_uninstall()


if __name__ == "__main__":
    main()
