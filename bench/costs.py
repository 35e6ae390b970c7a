"""What the recording adds to a step of a program: a blocking call, a task's step, a greenlet's switch, a child's start.

    python -m bench.costs [--rounds 12] [--only TEXT]

Question: how many ns more does each step take while it is recorded, and while the recording is switched off? Expected:
at most 1 us a blocking call, 400 ns a task's step, 250 ns a switch, 25 ms a start; off at most 50 ns of each.

Programs and modes take turns: in each round pyperf gives each of them a process of its own and keeps all values. `bare`
is a process without any recording. A round's least value counts; printed are the median of all rounds, and the least
and largest difference to `bare` of the same round. What it does not show: a call that really blocks also pays for its
own switch, and the writer thread needs some of another core (`bench.record_cost`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyperf

MODES: Final = ("bare", "off", "on")
_GREENLANE: Final = (sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")
_LOOPS: Final = 4_000


def call(loops: int) -> float:
    """One of send and recv on a socketpair, which return immediately; CPU of the thread."""
    one, other = socket.socketpair()
    with one, other:
        send, recv = one.send, other.recv
        began_ns = time.thread_time_ns()
        for _ in range(loops // 2):
            send(b"x")
            recv(1)
        return (time.thread_time_ns() - began_ns) / 1e9


async def _yielding(loops: int) -> float:
    sleep, began = asyncio.sleep, time.perf_counter()
    for _ in range(loops):
        await sleep(0)
    return time.perf_counter() - began


async def _waking(loops: int) -> float:
    """Two tasks that wake each other through futures."""
    loop = asyncio.get_running_loop()
    ping, pong = [loop.create_future()], [loop.create_future()]

    async def other() -> None:
        for _ in range(loops // 2):
            await ping[0]
            ping[0] = loop.create_future()
            pong[0].set_result(None)

    task = loop.create_task(other())
    await asyncio.sleep(0)
    began = time.perf_counter()
    for _ in range(loops // 2):
        ping[0].set_result(None)
        await pong[0]
        pong[0] = loop.create_future()
    spent = time.perf_counter() - began
    await task
    return spent


def _on(loop: str, program: Callable[[int], Any]) -> Callable[[int], float]:
    def run(loops: int) -> float:
        with asyncio.Runner(loop_factory=__import__(loop).new_event_loop) as runner:
            spent: float = runner.run(program(loops))
        return spent

    return run


def sleep_zero(loops: int) -> float:
    """A switch to gevent's hub and back by `gevent.sleep(0)`."""
    import gevent

    began = time.perf_counter()
    for _ in range(loops // 2):
        gevent.sleep(0)
    return time.perf_counter() - began


def timer(loops: int) -> float:
    """A switch for a timer, in 50 greenlets: with a share of a poll."""
    import gevent

    def sleeps() -> None:
        for _ in range(loops // 100):
            gevent.sleep(1e-6)

    began = time.perf_counter()
    gevent.joinall([gevent.spawn(sleeps) for _ in range(50)])
    return time.perf_counter() - began


def switch(loops: int) -> float:
    """Two plain greenlets that switch to each other."""
    import greenlet

    main = greenlet.getcurrent()

    def back() -> None:
        while True:
            main.switch()

    other = greenlet.greenlet(back)
    began = time.perf_counter()
    for _ in range(loops // 2):
        other.switch()
    return time.perf_counter() - began


STEPS: Final[Mapping[str, Callable[[int], float]]] = {
    "blocking call": call,
    "asyncio sleep(0)": _on("asyncio", _yielding), "asyncio wake-up": _on("asyncio", _waking),
    "uvloop sleep(0)": _on("uvloop", _yielding), "uvloop wake-up": _on("uvloop", _waking),
    "gevent sleep(0)": sleep_zero, "gevent timer": timer, "greenlet switch": switch,
}  # fmt: skip
#: What a child runs; http.server loads the recorder, as each that serves does.
STARTS: Final = {f'python -c "{code}"': code for code in ("pass", "import socket", "import http.server")}


def _in_mode(step: Callable[[int], float], mode: str) -> Callable[[int], float]:
    """The step in a job of a recorded process."""

    def run(loops: int) -> float:
        if mode == "bare":
            return step(loops)
        from greenlane.settings import load
        from greenlane.wiring.recording import start_recording, stop_recording

        with tempfile.TemporaryDirectory(prefix="greenlane-cost-") as folder:
            recording = start_recording(load({"record_folder": folder}))
            assert recording is not None
            recording.record(mode == "on")
            job = recording.recorder.open() if mode == "on" else 0
            try:
                return step(loops)
            finally:
                recording.recorder.close(job)
                stop_recording()

    return run


def drive(code: str, loops: int) -> None:
    """Start children; print their CPU in s."""
    used = 0.0
    for _ in range(loops):
        found = os.wait4(os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ), 0)[2]
        used += found.ru_utime + found.ru_stime
    print(used, flush=True)


def _started(code: str, mode: str) -> Callable[[int], float]:
    def run(loops: int) -> float:
        starts = max(1, loops // 1000)
        driver = [sys.executable, "-c", f"from bench.costs import drive; drive({code!r}, {starts})"]
        with tempfile.TemporaryDirectory() as folder:
            record = [*_GREENLANE, "record", "-o", f"{folder}/cost.glr", "--"] * (mode == "on")
            # `record` says 1 at its end: a driver without a job is not recorded, its children are what counts.
            done = subprocess.run([*record, *driver], check=False, capture_output=True, text=True)
        return float(done.stdout.splitlines()[0]) / starts * loops

    return run


def cells() -> dict[str, Callable[[int], float]]:
    """What is measured: "program|mode"."""
    found = {f"{name}|{mode}": _in_mode(step, mode) for mode in MODES for name, step in STEPS.items()}
    return found | {f"{name}|{mode}": _started(code, mode) for mode in ("bare", "on") for name, code in STARTS.items()}


def measure() -> None:
    """One round: a process for each cell, as pyperf's own options say."""
    runner = pyperf.Runner(program_args=("-m", "bench.costs"))
    for name, cell in cells().items():
        if os.environ.get("COSTS_ONLY", "") in name:
            runner.bench_time_func(name, cell)


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default="", metavar="TEXT", help="programs with this in their name")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "costs.json")
        options = ("--append", file, "--quiet", "--processes=1", "--values=8", "--warmups=1", f"--loops={_LOOPS}",
                   "--inherit-environ=COSTS_ONLY,PYTHONPATH,HOME")  # fmt: skip
        for _ in range(given.rounds):
            command = [sys.executable, "-c", "from bench.costs import measure; measure()", *map(str, options)]
            subprocess.run(command, env={**os.environ, "COSTS_ONLY": given.only}, check=True, stdout=sys.stderr)
        suite = pyperf.BenchmarkSuite.load(str(file))
    found = {each.get_name(): [1e9 * min(run.values) for run in each.get_runs()] for each in suite}
    print(f"CPython {sys.version.split()[0]}; ns, median of {given.rounds} rounds; added: least and largest of a round")
    for name in dict.fromkeys(name.partition("|")[0] for name in found):
        bare = found[f"{name}|bare"]
        line = f"{name:36} bare {statistics.median(bare):>12,.0f}"
        for mode in (mode for mode in MODES[1:] if f"{name}|{mode}" in found):
            added = [one - other for one, other in zip(found[f"{name}|{mode}"], bare, strict=True)]
            line += f"   {mode} adds {statistics.median(added):>10,.0f} [{min(added):,.0f}, {max(added):,.0f}]"
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if "--worker" not in sys.argv else measure())
