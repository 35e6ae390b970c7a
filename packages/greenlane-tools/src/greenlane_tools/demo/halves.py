"""A WSGI application whose requests say what they cost: `/?cpu=5&io=55` computes half of 5 ms, waits 55 ms as for a
network, and computes the other half.

CPU is counted in iterations (`ITERATIONS_PER_MS` of the environment), so a starved process does not get less to do.
`SWITCH_INTERVAL_MS`, if given, is the interpreter's switch interval.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from itertools import repeat
from urllib.parse import parse_qs

_ITERATIONS_PER_MS = int(os.environ.get("ITERATIONS_PER_MS", "11000"))
# A guard against a typing error in a scenario.
_MOST_MS = 5_000.0

if "SWITCH_INTERVAL_MS" in os.environ:
    sys.setswitchinterval(float(os.environ["SWITCH_INTERVAL_MS"]) / 1000)


def burn(iterations: int) -> int:
    """Pure Python that never blocks; its integers stay small, so each iteration costs the same."""
    state = 1
    for _ in repeat(None, iterations):
        state = (state * 31 + 7) & 0xFFFF
    return state


def application(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    """One request. Its answer names the process, so that its share of the load can be seen."""
    asked = parse_qs(str(environ.get("QUERY_STRING", "")))
    cpu_ms, io_ms = (min(_MOST_MS, float(asked.get(name, ["0"])[0])) for name in ("cpu", "io"))
    half = int(cpu_ms / 2 * _ITERATIONS_PER_MS)
    burn(half)
    if io_ms:
        time.sleep(io_ms / 1000)
    burn(half)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2"), ("X-Worker", str(os.getpid()))])
    return [b"ok"]
