"""The pricing service of the demo: one Flask application whose endpoints mix CPU work and I/O.

It imports nothing of Greenlane and is served unchanged by every contender. Its amount of work is counted in
iterations, not in wall-clock time: `PRICING_ITERATIONS_PER_MS` (work.py) says how many make one millisecond of CPU
on this machine, so a contender that runs slower does not get less to do. Requests whose work varies carry it in
their address (`?ms=37.2`), drawn from the load's seed: the same work for all contenders.

Environment (all set by contenders.py; the defaults let it run by hand):
    PRICING_UPSTREAM              host:port of upstream.py; 127.0.0.1:7001
    PRICING_ITERATIONS_PER_MS     iterations of `burn` in 1 ms of CPU; 11000 (arbitrary: a 2024 server core)
    PRICING_SWITCH_INTERVAL_MS    handed to sys.setswitchinterval in the worker; unset = the interpreter's 5 ms
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
from itertools import repeat
from typing import Any, Final

import numpy
from flask import Flask, Response, render_template_string, request

# CPU before each of the three upstream calls of an offer.
OFFER_STEP_MS: Final = 1.0
OFFER_STEPS: Final = 3
# Mean CPU of one quote and of one surge calculation when the address does not say it.
QUOTE_MS: Final = 40.0
SURGE_MS: Final = 20.0
# One request may not ask for more: a guard against a typing error, far above any drawn amount.
_MOST_MS: Final = 5_000.0

_RIDES: Final[list[dict[str, Any]]] = [
    {
        "id": f"ride-{n:05d}",
        "city": ("Lyon", "Graz", "Porto", "Gent")[n % 4],
        "cents": 250 + 37 * n % 4100,
        "note": f"kmh={n % 31};min={n % 53}",
    }
    for n in range(1_200)
]
_RIDES_JSON: Final = json.dumps(_RIDES)
_NOTE: Final = re.compile(r"kmh=(?P<kmh>\d+);min=(?P<min>\d+)")
_RECEIPT: Final = """<h1>Receipt {{ number }}</h1><table>{% for ride in rides %}
<tr class="{{ loop.cycle('odd', 'even') }}"><td>{{ ride.id|upper }}</td><td>{{ ride.city }}</td>
<td>{{ '%.2f'|format(ride.cents / 100) }}</td><td>{{ ride.note|replace(';', ', ') }}</td></tr>{% endfor %}</table>
<p>Total {{ '%.2f'|format(rides|sum(attribute='cents') / 100) }}</p>"""
_PLACES: Final = numpy.random.default_rng(1).random((90_000, 2), dtype=numpy.float64)

app = Flask(__name__)


def _environment() -> tuple[str, int, int]:
    host, _, port = os.environ.get("PRICING_UPSTREAM", "127.0.0.1:7001").partition(":")
    interval_ms = os.environ.get("PRICING_SWITCH_INTERVAL_MS")
    if interval_ms:
        sys.setswitchinterval(float(interval_ms) / 1000)
    return host, int(port), int(os.environ.get("PRICING_ITERATIONS_PER_MS", "11000"))


_UPSTREAM_HOST, _UPSTREAM_PORT, _ITERATIONS_PER_MS = _environment()


def burn(iterations: int) -> int:
    """Pure Python that never blocks: `iterations` steps of a small congruential generator.

    Its integers stay below 2^21, so that an iteration costs the same at the end of a long job as at its start.
    """
    state = 1
    for _ in repeat(None, iterations):
        state = (state * 31 + 7) & 0xFFFF
    return state


def burn_ms(milliseconds: float) -> int:
    """`burn` for an amount of CPU milliseconds as calibrated, at most 5 s."""
    return burn(int(min(milliseconds, _MOST_MS) * _ITERATIONS_PER_MS))


def receipt_text() -> str:
    """A receipt of 240 rides by Jinja: a few milliseconds of CPU, pure Python."""
    return render_template_string(_RECEIPT, number=17, rides=_RIDES[:240])


def report_text() -> str:
    """Parses 1,200 rides from JSON, reads each note by a regular expression, writes JSON: C code that holds the GIL."""
    rides = json.loads(_RIDES_JSON)
    by_city: dict[str, dict[str, float]] = {}
    for ride in rides:
        found = _NOTE.search(ride["note"])
        if found:
            city = by_city.setdefault(ride["city"], {"rides": 0, "km": 0.0, "cents": 0})
            city["rides"] += 1
            city["km"] += int(found["kmh"]) * int(found["min"]) / 60
            city["cents"] += ride["cents"]
    return json.dumps({"rides": rides, "by_city": by_city})


def search_nearest(x: float, y: float) -> list[int]:
    """The ten places nearest to a point by numpy, which releases the GIL in its larger steps."""
    distance = numpy.hypot(_PLACES[:, 0] - x, _PLACES[:, 1] - y)
    order = numpy.argsort(distance)
    return [int(n) for n in order[:10]]


def ask_upstream() -> bytes:
    """One call of the upstream service over a connection of its own: blocks about 100 ms."""
    connection = http.client.HTTPConnection(_UPSTREAM_HOST, _UPSTREAM_PORT, timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    finally:
        connection.close()


def _offer(kind: str) -> dict[str, object]:
    marks = 0
    for _ in range(OFFER_STEPS):
        marks ^= burn_ms(OFFER_STEP_MS)
        ask_upstream()
    return {"offer": kind, "cents": 100 + marks % 500}


@app.get("/bikes")
def bikes() -> dict[str, object]:
    """An offer: three times 1 ms of CPU, then an upstream call of 100 ms. Worthless after 500 ms."""
    return _offer("bike")


@app.get("/scooters")
def scooters() -> dict[str, object]:
    """The same for scooters."""
    return _offer("scooter")


@app.get("/quote")
def quote() -> dict[str, object]:
    """CPU only: `?ms=` milliseconds of it."""
    return {"cents": burn_ms(request.args.get("ms", QUOTE_MS, type=float))}


@app.get("/surge")
def surge() -> dict[str, object]:
    """An upstream call, then `?ms=` milliseconds of CPU."""
    ask_upstream()
    return {"factor": burn_ms(request.args.get("ms", SURGE_MS, type=float)) % 4}


@app.get("/receipt")
def receipt() -> str:
    """A page by Jinja."""
    return receipt_text()


@app.get("/report")
def report() -> Response:
    """JSON and regular expressions."""
    return Response(report_text(), mimetype="application/json")


@app.get("/search")
def search() -> dict[str, object]:
    """The nearest places, by numpy."""
    return {"places": search_nearest(request.args.get("x", 0.5, type=float), request.args.get("y", 0.5, type=float))}
