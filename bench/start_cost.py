"""What a child costs under `greenlane record`: `python -m bench.start_cost [--rounds 5]`.

Question: how much CPU does the start of a Python program take, and a fork, under the recording and without it?
Expected: at most 25 ms more for a start, and nothing to see for a fork.

A driver starts and forks children and adds up what the kernel says that they used. It runs stock and recorded in
turns; the least of each round counts, and the median of the rounds is printed. It does not show latency. A child that
serves loads the recorder: `http.server` stands for those.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import greenlane

TRIES = 5
FORKS = 20
#: What is started, by name.
STARTS = {
    "python -c pass": ("-c", "pass"),
    'python -c "import socket"': ("-c", "import socket"),
    'python -c "import http.server"': ("-c", "import http.server"),
}
_GREENLANE = (sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")


def started(arguments: tuple[str, ...]) -> float:
    """CPU of one start, ms."""
    pid = os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ)
    used = os.wait4(pid, 0)[2]
    return (used.ru_utime + used.ru_stime) * 1e3


def forked() -> float:
    """CPU of one fork, in parent and child, ms."""
    before, children_ms = time.process_time(), 0.0
    for _ in range(FORKS):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        used = os.wait4(pid, 0)[2]
        children_ms += (used.ru_utime + used.ru_stime) * 1e3
    return ((time.process_time() - before) * 1e3 + children_ms) / FORKS


def drive() -> None:
    """Print what each costs here, as JSON."""
    found = {name: min(started(arguments) for _ in range(TRIES)) for name, arguments in STARTS.items()}
    found["fork, nothing recorded yet"] = min(forked() for _ in range(TRIES))
    import greenlane.record

    with greenlane.record.job("first"):
        time.sleep(0.01)
    time.sleep(0.5)  # the threads of the recording are there
    found["fork, while recording"] = min(forked() for _ in range(TRIES))
    print(json.dumps(found), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    # As pip leaves them; a first start of an edited checkout also compiles.
    compileall.compile_dir(str(Path(greenlane.__file__).parent), quiet=1)
    driver = [sys.executable, "-c", "from bench.start_cost import drive; drive()"]
    found: dict[str, list[dict[str, float]]] = {"stock": [], "recorded": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            recorded = [*_GREENLANE, "record", "-o", str(Path(folder, f"{number}.glr")), "--", *driver]
            for name, command in (("stock", driver), ("recorded", recorded)):
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[name].append(json.loads(said.splitlines()[0]))
    print(f"CPython {sys.version.split()[0]}; CPU in ms, median of {rounds} rounds")
    print(f"{'':34} {'stock':>9} {'recorded':>9}")
    for case in found["stock"][0]:
        cells = (statistics.median(each[case] for each in found[name]) for name in found)
        print(f"{case:34} " + " ".join(f"{cell:9.2f}" for cell in cells))


if __name__ == "__main__":
    main()
