"""Recorded latencies against the client's clock: each observed server, each kind of connection.

    python -m bench.arrival [SERVER ...] [--rounds 1] [--json]

Question: by how much does the recorded latency of a request differ from what its client saw? Expected before the first
run: by less than 5 % or 2 ms for each request, on new and kept connections, idle and pipelined ones. A row gives the
worst difference of each kind in ms (+ = recorded longer) and, in brackets, how many of its requests were further off.
The client's clock begins before the last byte of a request's head is sent, and ends when its kernel has the answer's
last byte. All moments are CLOCK_MONOTONIC of one machine.

What it does not show: on a busy machine the client may be kept between its clock and its send, and a server between its
answer and the job's end; both are in the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path

# `tests` is one namespace over the packages' folders; only pytest knows all of them.
sys.path.append(str(Path(__file__).parents[1] / "packages/greenlane"))

from tests.arrival.client import KINDS  # the path comes first
from tests.arrival.compared import Comparison, compare
from tests.arrival.servers import SERVERS, missing

from tests.child import Child, free_port

SCHEMA = "greenlane.arrival/1"


def measured(name: str, rounds: int) -> list[Comparison]:
    """Ask a server, in a new process each round."""
    rows: list[Comparison] = []
    for _ in range(rounds):
        with contextlib.ExitStack() as running, tempfile.TemporaryDirectory(prefix="greenlane-arrival-") as folder:

            def start(argv: list[str], *, env: dict[str, str], cwd: Path, port: int) -> Child:
                child = running.enter_context(Child(argv, env=env, cwd=cwd))  # called in this round
                child.wait_port(port)
                return child

            rows += compare(SERVERS[name], start, Path(folder), free_port())
    return rows


def row_of(name: str, kind: str, rows: list[Comparison]) -> dict[str, object]:
    """What is printed of one kind of connection."""
    worst = max(rows, key=lambda row: abs(row.error_ns))
    return {
        "server": name,
        "kind": kind,
        "requests": len(rows),
        "clock": "+".join(sorted({row.job.clock for row in rows})),
        "worst_ms": round(worst.error_ns / 1e6, 2),
        "arrival_ms": round(max((row.job.arrival_ns - row.exchange.sent_ns for row in rows), key=abs) / 1e6, 2),
        "off": sum(not row.is_near for row in rows),
    }


def main() -> int:
    """Measure, print a table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("server", nargs="*", help="default: all")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = arguments.server or [name for name, server in SERVERS.items() if not missing(server)]
    if not arguments.json:
        print("| server | clock |", " | ".join(KINDS), "|")
        print("|---" * (2 + len(KINDS)) + "|")
    found = []
    for name in names:
        rows = measured(name, arguments.rounds)
        of_kinds = [row_of(name, kind, [row for row in rows if row.exchange.kind == kind]) for kind in KINDS]
        found += of_kinds
        if not arguments.json:
            clocks = "+".join(sorted({row.job.clock for row in rows}))
            cells = [
                f"{row['worst_ms']:+}" + (f" ({row['off']}/{row['requests']})" if row["off"] else "")
                for row in of_kinds
            ]
            print(f"| {name} | {clocks} |", " | ".join(cells), "|", flush=True)
    worst = max(found, key=lambda row: abs(float(str(row["worst_ms"]))))
    late = max(found, key=lambda row: abs(float(str(row["arrival_ms"]))))
    if arguments.json:
        print(json.dumps({"schema": SCHEMA, "rows": found}, indent=2))
    else:
        print(f"\nworst latency: {worst['server']}, {worst['kind']}: {worst['worst_ms']:+} ms")
        print(f"worst arrival: {late['server']}, {late['kind']}: {late['arrival_ms']:+} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
