"""A profile as a service: each request does one of its route's sequences, in CPU time of its thread and real sleeps.

It imports nothing of Greenlane and is served unchanged by every contender, from a folder with `sequences.json`. Which
sequence a request does follows from the number that it brings (`/3?w=1234.567`), so all contenders meet the same work,
and the number determines the sequence (`Played.number`).

A profile says how long a request computed by the CPU's clock, on a machine whose cores were in use. So it computes by
that clock, not in counted iterations: those are counted on an idle machine, where a core does more in a millisecond
than beside a busy neighbour. What Flask and each sleep compute themselves is taken off.

    PLAYED_ITERATIONS_PER_MS     iterations of `burn` in 1 ms of CPU: how often the clock is looked at
    PLAYED_SWITCH_INTERVAL_MS    for sys.setswitchinterval; unset = as it is
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

#: Rounds of one call of a hash that computes for milliseconds without the GIL.
_FREE_ROUNDS: Final = 20_000
_TIMES: Final = 9
_SLEEPS: Final = 40
#: Looks at the clock in a millisecond of computing: each takes 0.3 us.
_LOOKS_PER_MS: Final = 50


def burn(iterations: int) -> None:
    """Computes under the GIL."""
    for _ in repeat(None, iterations):
        pass


class Played:
    """All routes of a profile.

    Args:
        routes: as `sequences.json` has them.
        iterations_per_ms: of `burn`.
        around_ms: CPU that a request costs before it begins, and that its first steps therefore need no more.
    """

    def __init__(self, routes: list[dict[str, Any]], iterations_per_ms: float, around_ms: float = 0.0) -> None:
        self._piece = max(1, round(iterations_per_ms / _LOOKS_PER_MS))
        self._half_ns = round(0.5e6 / _LOOKS_PER_MS)
        self._around_ms = around_ms
        self._sleep_ms = 0.0
        self._rounds_per_ms = 0.0
        self._sequences = [
            [[(kind, ms) for kind, ms in each["steps"]] for each in route["sequences"]] for route in routes
        ]
        self._weights = [list(accumulate(each["weight"] for each in route["sequences"])) for route in routes]

    def calibrate(self) -> None:
        """Measures what one sleep computes here, and how fast work without the GIL is; some 0.2 s."""
        self._sleep_ms = _cpu_ms(_sleep_often) / _SLEEPS
        if any(kind == "free" for route in self._sequences for steps in route for kind, _ in steps):
            self._rounds_per_ms = _FREE_ROUNDS / _cpu_ms(lambda: _free(_FREE_ROUNDS))

    def number(self, route: int, word: str) -> int:
        """Which sequence a request with this number does: each as often as its weight says."""
        weights = self._weights[route]
        found = bisect.bisect_left(weights, _unit(f"{route} {float(word or 0):.3f}") * weights[-1])
        return min(found, len(weights) - 1)

    def play(self, route: int, word: str) -> int:
        """Does one request; gives the number of the sequence."""
        number = self.number(route, word)
        owed_ms = self._around_ms
        for kind, ms in self._sequences[route][number]:
            if kind == "cpu":
                paid_ms = min(ms, owed_ms)
                owed_ms -= paid_ms
                self._compute(ms - paid_ms)
            elif kind == "free":
                _free(max(1, round(ms * self._rounds_per_ms)))
            elif kind == "held":
                _held_sleep()(ms / 1000)
            else:
                time.sleep(ms / 1000)
                owed_ms += self._sleep_ms
        return number

    def _compute(self, ms: float) -> None:
        """Under the GIL, for this long of this thread's CPU time."""
        end_ns = time.thread_time_ns() + round(ms * 1e6) - self._half_ns
        while time.thread_time_ns() < end_ns:
            burn(self._piece)


def _unit(text: str) -> float:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


def _free(rounds: int) -> None:
    # One call: each call more would wait for the GIL once more.
    hashlib.pbkdf2_hmac("sha256", b"played", b"sequence", rounds)


def _sleep_often() -> None:
    for _ in repeat(None, _SLEEPS):
        time.sleep(1e-5)


def _cpu_ms(call: Any) -> float:
    def once() -> float:
        began_ns = time.thread_time_ns()
        call()
        return (time.thread_time_ns() - began_ns) / 1e6

    return max(1e-3, statistics.median(once() for _ in range(_TIMES)))


def _held_sleep() -> Any:
    """A sleep that blocks its whole loop where there is one."""
    monkey = sys.modules.get("gevent.monkey")
    return (
        monkey.get_original("time", "sleep") if monkey is not None and monkey.is_module_patched("time") else time.sleep
    )


def _application() -> Any:
    from flask import Flask, request

    if interval_ms := os.environ.get("PLAYED_SWITCH_INTERVAL_MS"):
        sys.setswitchinterval(float(interval_ms) / 1000)
    flask = Flask(__name__)
    routes = json.loads(Path("sequences.json").read_text(encoding="utf-8"))
    iterations_per_ms = float(os.environ.get("PLAYED_ITERATIONS_PER_MS", "100000"))
    flask.add_url_rule("/empty", "empty", lambda: "")
    played = Played(routes, iterations_per_ms, _around_ms())
    played.calibrate()
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


# Served as `played:app`. The lab and the plan import the file for `burn` and `Played`, by other names.
if __name__ == "played":
    app = _application()
