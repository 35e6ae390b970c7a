"""Instructions that the middleware adds to a request, counted by valgrind: no core's speed is in them.

    python -m bench.instructions [--requests N] [--json]

Question: how many instructions more does one request of hello-world take under the middleware, with gunicorn's gthread
around it, and how much is that of what it takes without? One worker answers the same requests with and without it, in
turns, twice; connections kept, then a new one each. Between two counts it has answered enough for CPython to specialise
its bytecode again. What it does not show: caches that others have emptied, see `bench.overhead`.

What it shows too large: our thread that looks at phases every 4 ms. Here a request takes fifty times as long, so there
are fifty times as many looks (of 14,100 for kept connections they were 5,100).

Needs valgrind (Debian: valgrind). Takes half a minute.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.processes import Logged, free_port

_HERE = Path(__file__).parent
_STATES = ("bare", "wrapped")
_TURNS = 2
_WARM = 60
#: Valgrind is some fifty times slower.
_PATIENCE_S = 120
# Under valgrind a light request computes for longer than `heavy_ms`.
_HEAVY_MS = "500"


def counted(requests: int) -> dict[str, dict[str, float]]:
    """Instructions a request by connections ("kept", "new") and state ("bare", "wrapped")."""
    with tempfile.TemporaryDirectory(prefix="greenlane-count-") as folder:
        port = free_port()
        gthread = next(one.arguments for one in pricing().contenders if one.name == "gthread-64")
        command = (
            "valgrind", "--tool=callgrind", "--trace-children=yes", "--instr-atstart=no",
            f"--callgrind-out-file={folder}/%p", sys.executable, "-m", "gunicorn", "--workers", "1",
            "--bind", f"127.0.0.1:{port}", "--no-control-socket", *gthread, "--timeout", "600",
            "hello_greenlane:application",
        )  # fmt: skip
        server = Logged(command, Path(folder, "log"), {"GREENLANE_HEAVY_MS": _HEAVY_MS}, _HERE)
        try:
            server.wait_for_port(port, _PATIENCE_S)
            _get(port, 1, kept=True)
            worker = server.pids()[-1]
            return {
                connections: _in_turns(Path(folder), worker, port, requests, kept=connections == "kept")
                for connections in ("kept", "new")
            }
        finally:
            server.end()


def _in_turns(folder: Path, worker: int, port: int, requests: int, *, kept: bool) -> dict[str, float]:
    found: dict[str, list[float]] = {state: [] for state in _STATES}
    for state in _STATES * _TURNS:
        _get(port, 1, kept=True, path=f"/{state}")
        _get(port, _WARM, kept=kept)
        _control(worker, "--instr=on")
        _control(worker, "--zero")
        _get(port, requests, kept=kept)
        _control(worker, "--dump")
        _control(worker, "--instr=off")
        dump = max(folder.glob(f"{worker}.*"), key=lambda path: int(path.suffix[1:]))
        found[state].append(_total(dump) / requests)
    return {state: statistics.mean(counts) for state, counts in found.items()}


def _control(worker: int, what: str) -> None:
    subprocess.run(["callgrind_control", what, str(worker)], check=True, capture_output=True, timeout=_PATIENCE_S)


def _total(dump: Path) -> int:
    return next(int(line.split()[1]) for line in dump.read_text().splitlines() if line.startswith("summary:"))


def _get(port: int, requests: int, *, kept: bool, path: str = "/") -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)
    for _ in range(requests):
        connection.request("GET", path)
        connection.getresponse().read()
        if not kept:
            connection.close()  # The next request makes another one.
    connection.close()


def main(argv: Sequence[str]) -> int:
    """Count, and print a line for each kind of connection, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    if given.requests < 1:
        parser.error(f"--requests={given.requests}, expected at least 1")
    if not shutil.which("callgrind_control"):
        print("bench.instructions: callgrind_control is missing; install Debian's valgrind", file=sys.stderr)
        return 2
    found = counted(given.requests)
    if given.json:
        print(json.dumps({"schema": "greenlane.instructions/1", "instructions": found}))
        return 0
    for connections, by_state in found.items():
        bare, wrapped = (by_state[state] for state in _STATES)
        print(
            f"  connections {connections}: {wrapped - bare:,.0f} instructions a request more "
            f"({100 * (wrapped / bare - 1):.2f} % of {bare:,.0f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
