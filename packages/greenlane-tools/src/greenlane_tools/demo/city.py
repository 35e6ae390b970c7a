"""A city's bike service, for `greenlane try`: one WSGI application whose routes wait, compute, or both.

It imports nothing of Greenlane, and knows nothing of its load.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Final

#: What an upstream service takes to answer.
_UPSTREAM_S: Final = 0.1
_RIDES: Final = [
    {"ride": n, "city": ("Lyon", "Graz", "Porto")[n % 3], "cents": 250 + 37 * n % 4100} for n in range(600)
]


def burn(iterations: int) -> int:
    """Pure Python that never blocks."""
    state = 1
    for _ in repeat(None, iterations):
        state = (state * 31 + 7) & 0xFFFF
    return state


def bikes() -> object:
    """Three upstream services, and a little work before each."""
    for _ in range(3):
        burn(8_000)
        time.sleep(_UPSTREAM_S)
    return {"bikes": 3}


def price() -> object:
    """Computes."""
    return {"cents": burn(500_000) % 500}


def report() -> object:
    """JSON, back and forth."""
    return [json.loads(json.dumps(_RIDES)) for _ in range(8)][-1]


_ROUTES: Final = {"/bikes": bikes, "/price": price, "/report": report}


def app(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    """One request."""
    view = _ROUTES.get(str(environ.get("PATH_INFO")))
    body = b"not found\n" if view is None else json.dumps(view()).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("404 Not Found" if view is None else "200 OK", headers)
    return [body]
