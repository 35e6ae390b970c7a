"""What the recording adds to a blocking call: a socketpair's send and recv on a thread, recorder on and off in turns.

    python -m bench.call_cost [--rounds 40] [--calls 4000] [--json]

Question: how many ns more does one blocking call cost that returns immediately? Expected before the first run: under
1 us: the probe's leave and enter, one event for the call, one for a slice when it was long enough; and nothing while it
is switched off as `greenlane record --off` does it. One round is `calls` pairs of send and recv with the recording on
and as many with it off, in alternating order, and as many in an interpreter that was never told of Greenlane (`plain`).
Thread CPU clock, inside a job (without one there is less to write). What it does not show: a call that really blocks
also pays for its switch, on or off.
"""

from __future__ import annotations

import argparse
import inspect
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict

from bench.claims import Claim
from bench.summary import claim_line
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.statistics import quantile

SCHEMA = "greenlane.call-cost/1"
#: ns: what the README claims.
MOST_NS = 1_000.0
_DRAWS = 2_000


def round_ns(calls: int) -> float:
    """ns of thread CPU of one of 2 × `calls` blocking calls on a socketpair."""
    one, other = socket.socketpair()
    with one, other:
        send, recv = one.send, other.recv
        began_ns = time.thread_time_ns()
        for _ in range(calls):
            send(b"x")
            recv(1)
        return (time.thread_time_ns() - began_ns) / calls / 2


def interleaved(rounds: int, calls: int) -> tuple[list[float], list[float]]:
    """(on, off) ns of a call in each round, in this process."""
    from greenlane._native import Recorder
    from greenlane.settings import load
    from greenlane.wiring import recording as wired

    on: list[float] = []
    off: list[float] = []
    with tempfile.TemporaryDirectory(prefix="greenlane-cost-") as folder:
        recording = wired.start_recording(load({"record_folder": folder}))
        assert recording is not None
        recorder = Recorder()
        for number in range(rounds + 1):
            for wanted in (True, False) if number % 2 else (False, True):
                recording.record(wanted)
                job = recorder.open() if wanted else 0
                (on if wanted else off).append(round_ns(calls))
                recorder.close(job)
        wired.stop_recording()
    return on[1:], off[1:]


def plain(rounds: int, calls: int) -> list[float]:
    """ns of a call in each round, in an interpreter without Greenlane."""
    source = f"import json, socket, time\n{inspect.getsource(round_ns)}\n"
    source += f"print(json.dumps([round_ns({calls}) for _ in range({rounds} + 1)][1:]))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", source], check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def added(some: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Median of the paired differences, and its 95 % bootstrap interval."""
    differences = [one - other for one, other in zip(some, base, strict=True)]
    source = random.Random(1)
    drawn = sorted(statistics.median(source.choices(differences, k=len(differences))) for _ in range(_DRAWS))
    return statistics.median(differences), quantile(drawn, 0.025), quantile(drawn, 0.975)


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.call_cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    bare = plain(given.rounds, given.calls)
    on, off = interleaved(given.rounds, given.calls)
    note = f"without Greenlane {statistics.median(bare):.0f} ns, off {statistics.median(off):.0f} ns"
    found = [
        Claim("call-cost", "recorded: CPU added to a blocking call", *added(on, bare), "≤", MOST_NS, 0, " ns", note),
        Claim("call-cost", "on ÷ off: CPU added to a blocking call", *added(on, off), "≤", MOST_NS, 0, " ns"),
        Claim("call-cost", "switched off: CPU added to a blocking call", *added(off, bare), "≤", MOST_NS, 0, " ns"),
    ]
    if given.json:
        rows = [{**asdict(one), "verdict": one.verdict} for one in found]
        print(json.dumps({"schema": SCHEMA, "environment": about(("greenlane",)), "rows": rows}))
    else:
        print("\n".join(map(claim_line, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
