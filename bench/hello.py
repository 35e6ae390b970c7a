"""The smallest service: what a request costs when the application costs nothing.

`/intervals` answers how often sys.setswitchinterval was called in this process and what it is now; it counts when
`bench/count_intervals.py` is gunicorn's configuration.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

_BODY = b"hello\n"
Start = Callable[[str, list[tuple[str, str]]], object]


def application(environ: dict[str, object], start_response: Start) -> Iterable[bytes]:
    """Answer hello, or on `/intervals` how often the switch interval was changed."""
    body = _intervals() if environ["PATH_INFO"] == "/intervals" else _BODY
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def _intervals() -> bytes:
    counted = getattr(sys, "setswitchinterval_calls", None)
    calls = None if counted is None else len(counted)
    return json.dumps({"calls": calls, "interval_ms": sys.getswitchinterval() * 1000}).encode()
