"""Where the recording's price is, by samples of the processor: `python -m bench.record_where [--pairs 40]`. Needs perf.

Question: of the CPU of the same work, recorded, how much is in Greenlane's code, its threads, the kernel and the
interpreter? Expected: under 1.5 % on gevent and 2 % on 64 threads.

As `bench.record_toggle`: one service, switched off and on in turns. There the sum is compared, and cores that change
their speed hide a per cent. Here `perf` samples the worker 2,000 times a second, each sample counts for the place where
it was, and both sides are divided by the samples in the demo's own work (a loop that allocates and multiplies), which
is the same in both: a slow core makes both slow. ± is one standard deviation of the counts.

What it does not show: what the work itself loses to caches that are cold.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from bench.record_cost import iterations_per_ms, started
from bench.record_toggle import turn
from bench.recorded_contenders import RECORD, WORKERS
from greenlane.control import client as control

#: Functions of the interpreter in which the demo's work is, and hardly anything else.
WORK: Final = {
    "PyNumber_Add", "PyNumber_And", "PyNumber_And@plt", "PyNumber_Multiply", "PyObject_Free", "PyObject_Malloc",
    "PyObject_Malloc@plt", "_PyEval_EvalFrameDefault", "_PyLong_Add", "_PyLong_Multiply", "_PyObject_Free",
    "_PyObject_Malloc", "_Py_NewReference", "_Py_NewReference@plt", "long_and", "long_mul", "object_dealloc",
    "repeat_next",
}  # fmt: skip


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="where the recording's price is")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--workers", default=",".join(WORKERS))
    parser.add_argument("--symbols", action="store_true", help="by function, too")
    parser.add_argument("--most", type=int, default=8, help="rows that are printed (8)")
    given = parser.parse_args(argv)
    for worker in given.workers.split(","):
        found = _sampled(worker, given.pairs)
        scale = _work(found[False]) / _work(found[True])
        total = sum(found[False].values())
        rows = {False: Counter[str](), True: Counter[str]()}
        counted = Counter[str]()
        for on, sign in ((True, scale), (False, -1.0)):
            for (place, symbol), samples in found[on].items():
                if symbol not in WORK:
                    for by_symbol, name in ((False, place), (True, f"{place} {symbol}")):
                        rows[by_symbol][name] += sign * samples  # type: ignore[assignment]
                        counted[name] += samples
        doubt = math.sqrt(sum(counted[place] for place in rows[False])) / total
        print(f"{worker:<12}{sum(rows[False].values()) / total:6.2%} ± {doubt:.2%} more ({total} samples without)")
        for by_symbol in (False, True)[: 1 + given.symbols]:
            for place, more in rows[by_symbol].most_common(given.most):
                print(f"  {more / total:8.2%} ± {math.sqrt(counted[place]) / total:.2%}  {place}")
    return 0


def _sampled(worker: str, pairs: int) -> dict[bool, Counter[tuple[str, str]]]:
    """Recorded or not -> (place, symbol) -> samples."""
    found = {on: Counter[tuple[str, str]]() for on in (True, False)}
    with started((RECORD,), worker, None, iterations_per_ms()) as (_, (server,)), tempfile.TemporaryDirectory() as own:
        sockets = [process.socket for process in control.processes(server.folder)]
        worker_pid = max(server.server.pids())
        for number in range(pairs):
            for on in (number % 2 == 0, number % 2 == 1):  # who comes first changes
                for socket in sockets:
                    control.ask(socket, {"do": "record", "on": on})
                samples = Path(own, "samples")
                command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-p", str(worker_pid)]
                perf = subprocess.Popen([*command, "-o", samples], stderr=subprocess.DEVNULL)
                turn(server, random.Random(number))
                perf.send_signal(signal.SIGINT)
                perf.wait()
                found[on] += _read(samples)
            print(f"  {worker:<12}{number + 1:>3}", file=sys.stderr)
    return found


def _read(samples: Path) -> Counter[tuple[str, str]]:
    script = ["perf", "script", "-i", str(samples), "-G", "-F", "comm,ip,sym,dso"]
    said = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    found = Counter[tuple[str, str]]()
    for line in said.splitlines():
        words, dso = line.split(), line[line.rfind("(") + 1 :].rstrip(")").rpartition("/")[2]
        if len(words) > 2:
            place = words[0] if words[0].startswith("greenlane-") else dso
            found[place, words[2]] += 1
    return found


def _work(found: Counter[tuple[str, str]]) -> int:
    return sum(samples for (_, symbol), samples in found.items() if symbol in WORK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
