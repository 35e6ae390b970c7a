"""A profile as a service: each request does one of its route's sequences, in counted work and real sleeps.

It imports nothing of Greenlane and is served unchanged by every contender, from a folder with `sequences.json`. Which
sequence a request does follows from the number that it brings (`/3?w=1.234`), so all contenders meet the same work.

    PLAYED_ITERATIONS_PER_MS    iterations of `burn` in 1 ms of CPU
"""

from __future__ import annotations

import bisect
import hashlib
import json
import os
import statistics
import sys
import time
from itertools import accumulate, repeat
from pathlib import Path
from typing import Any, Final

_STEP = tuple[str, float]

#: Bytes that are hashed without the GIL, at a time; measured when the program starts.
_PIECE: Final = bytes(64 * 1024)
_ROUNDS: Final = 9


def burn(iterations: int) -> None:
    """Computes under the GIL."""
    for _ in repeat(None, iterations):
        pass


class Played:
    """All routes of a profile."""

    def __init__(self, routes: list[dict[str, Any]], iterations_per_ms: float, around_ms: float) -> None:
        self._per_ms = iterations_per_ms
        self._around_ms = around_ms
        self._piece_ms = _piece_ms()
        self._sequences = [
            [[(kind, ms) for kind, ms in each["steps"]] for each in route["sequences"]] for route in routes
        ]
        self._weights = [list(accumulate(each["weight"] for each in route["sequences"])) for route in routes]

    def play(self, route: int, word: str) -> int:
        """Does one request; gives the number of the sequence."""
        weights = self._weights[route]
        number = bisect.bisect_left(weights, _unit(f"{route} {word}") * weights[-1])
        owed_ms = self._around_ms
        for kind, ms in self._sequences[route][number]:
            if kind == "cpu":
                # What the framework computes was part of the recorded CPU.
                paid_ms = min(ms, owed_ms)
                owed_ms -= paid_ms
                burn(round((ms - paid_ms) * self._per_ms))
            elif kind == "free":
                for _ in repeat(None, round(ms / self._piece_ms)):
                    hashlib.sha256(_PIECE)
            elif kind == "held":
                _held_sleep()(ms / 1000)
            else:
                time.sleep(ms / 1000)
        return number


def _unit(text: str) -> float:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


def _piece_ms() -> float:
    def once() -> float:
        began_ns = time.thread_time_ns()
        for _ in repeat(None, 20):
            hashlib.sha256(_PIECE)
        return (time.thread_time_ns() - began_ns) / 20e6

    return max(1e-3, statistics.median(once() for _ in range(_ROUNDS)))


def _held_sleep() -> Any:
    """A sleep that blocks its whole loop where there is one."""
    monkey = sys.modules.get("gevent.monkey")
    return (
        monkey.get_original("time", "sleep") if monkey is not None and monkey.is_module_patched("time") else time.sleep
    )


def _application() -> Any:
    from flask import Flask, request

    flask = Flask(__name__)
    routes = json.loads(Path("sequences.json").read_text(encoding="utf-8"))
    iterations_per_ms = float(os.environ.get("PLAYED_ITERATIONS_PER_MS", "11000"))
    flask.add_url_rule("/empty", "empty", lambda: "")
    played = Played(routes, iterations_per_ms, _around_ms())
    for number in range(len(routes)):

        def view(number: int = number) -> str:
            return str(played.play(number, request.args.get("w", "")))

        flask.add_url_rule(f"/{number}", f"route{number}", view)
    return flask


def _around_ms() -> float:
    """CPU of the framework in a request that does nothing."""
    from flask import Flask
    from werkzeug.test import EnvironBuilder

    # Of its own: an application that has answered takes no more routes.
    flask = Flask("empty")
    flask.add_url_rule("/empty", "empty", lambda: "")

    def once() -> float:
        environ = EnvironBuilder(path="/empty").get_environ()
        began_ns = time.thread_time_ns()
        list(flask.wsgi_app(environ, lambda status, headers, exc_info=None: lambda body: None))
        return (time.thread_time_ns() - began_ns) / 1e6

    once()
    return statistics.median(once() for _ in range(50))


# Served as `played:app`; the lab imports the file for `burn` alone, where there are no sequences.
if Path("sequences.json").exists():
    app = _application()
