"""What an order of turns may get wrong, as a WSGI application (`application`). It imports nothing of Greenlane.

/…?ms=25              computes
/…?ms=25&calls=10     the same in eleven parts, with a wait of 5 ms, as for a network, between two
/swap/one, /swap/two  compute 3 and 25 ms; every 6 s of the clock they change roles
/export               sends a row of 8 ms of CPU every 50 ms or more, 300 of them

CPU is counted in iterations (`ITERATIONS_PER_MS`), so a starved process does not get less to do.
`SWITCH_INTERVAL_MS`, if given, is the interpreter's switch interval.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from urllib.parse import parse_qs

_ITERATIONS_PER_MS = int(os.environ.get("ITERATIONS_PER_MS", "11000"))
# A guard against a typing error in a scenario.
_MOST_MS = 5_000.0
_CALL_S = 0.005
_SWAP_S = 6
_SWAPPED_MS = {"/swap/one": (3.0, 25.0), "/swap/two": (25.0, 3.0)}
_ROWS, _ROW_MS, _FETCH_S = 300, 8.0, 0.042

if "SWITCH_INTERVAL_MS" in os.environ:
    sys.setswitchinterval(float(os.environ["SWITCH_INTERVAL_MS"]) / 1000)


def burn(iterations: int) -> int:
    """Pure Python that never blocks; its integers stay small, so each iteration costs the same."""
    state = 1
    for _ in repeat(None, iterations):
        state = (state * 31 + 7) & 0xFFFF
    return state


def burn_ms(milliseconds: float) -> None:
    """`burn` for so much CPU as calibrated."""
    burn(int(min(milliseconds, _MOST_MS) * _ITERATIONS_PER_MS))


def application(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    """One request."""
    path = str(environ["PATH_INFO"])
    if path == "/export":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return _rows()
    asked = parse_qs(str(environ.get("QUERY_STRING", "")))
    ms, calls = (float(asked.get(name, ["0"])[0]) for name in ("ms", "calls"))
    if path in _SWAPPED_MS:
        ms = _SWAPPED_MS[path][int(time.time() / _SWAP_S) % 2]
    parts = int(calls) + 1
    burn_ms(ms / parts)
    for _ in range(parts - 1):
        time.sleep(_CALL_S)
        burn_ms(ms / parts)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
    return [b"ok"]


def _rows() -> Iterator[bytes]:
    for _ in range(_ROWS):
        time.sleep(_FETCH_S)
        burn_ms(_ROW_MS)
        yield b"row " * 64
