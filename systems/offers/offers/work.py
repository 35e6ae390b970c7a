"""Kinds of CPU work, counted in iterations, and how many of them make one millisecond of this machine's CPU.

An iteration is a few microseconds of what a pricing service really does. It is counted and never timed, so that a
process that is slowed down has as much to do as the others. JSON and regular expressions take a page of documents in
one call of C code, which keeps the GIL for some 0.2 ms; the others let it go between iterations.

    python -m offers.work        prints {"burn": 812.4, …}: iterations in one millisecond of a thread's CPU
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise, repeat
from typing import Any, Final

from jinja2 import Template

# All CPU of one request; above anything that is drawn on purpose.
MOST_MS: Final = 5_000.0
# Documents that json and regex take at once.
_PAGE: Final = 32
# A round is long against the clock's grain and short enough that most see no other process.
_ROUND_MS: Final = 2.0
_ROUNDS: Final = 31

_RIDE: Final[Mapping[str, Any]] = {
    "id": "ride-00417", "mode": "bike", "cents": 465, "metres": 2140, "tags": ["hills", "helmet", "pass"],
    "legs": [{"from": [45.76, 4.83], "to": [45.77, 4.86], "s": 512}],
}  # fmt: skip
_RIDES_JSON: Final = [json.dumps([_RIDE] * size) for size in range(_PAGE + 1)]
_NOTE: Final = "zone=hills-7;rate=0.19;per=min;code=SPRING24;until=2026-03-31\n" * 16
_RULE: Final = re.compile(r"zone=([a-z]+)-(\d+);rate=(\d+\.\d+);per=(\w+);code=([A-Z]+)(\d*);until=([\d-]+)")
_LINE: Final = Template(
    "<tr><td>{{ mode|upper }}</td><td>{{ '%.2f'|format(cents / 100) }}</td>"
    "{% for leg in legs %}<td>{{ leg.s // 60 }} min</td>{% endfor %}</tr>"
)
_VEHICLES: Final = [((n * 7919) % 1009, f"vehicle-{n:03d}", (n * 104_729) % 2003) for n in range(48)]
_PATH: Final = [(45.75 + 0.003 * n, 4.83 + 0.002 * (n * n % 11)) for n in range(17)]
_EARTH_M: Final = 6_371_008.8


def _burn(iterations: int) -> int:
    """Arithmetic of whole numbers below 2^22: a price built up in small steps."""
    state = 1
    for _ in repeat(None, iterations * 100):
        state = (state * 37 + 11) & 0x1FFFF
    return state


def _geometry(iterations: int) -> int:
    """The length of a way of 17 points on the sphere (haversine)."""
    metres = 0.0
    for _ in repeat(None, iterations):
        metres = 0.0
        for (lat, lon), (to_lat, to_lon) in pairwise(_PATH):
            half_lat, half_lon = math.radians(to_lat - lat) / 2, math.radians(to_lon - lon) / 2
            across = math.cos(math.radians(lat)) * math.cos(math.radians(to_lat)) * math.sin(half_lon) ** 2
            metres += 2 * _EARTH_M * math.asin(math.sqrt(math.sin(half_lat) ** 2 + across))
    return int(metres)


def _json(iterations: int) -> int:
    """A ride parsed and written again, by the page."""
    length = 0
    for size in _pages(iterations):
        length += len(json.dumps(json.loads(_RIDES_JSON[size])))
    return length


def _regex(iterations: int) -> int:
    """Sixteen lines of rules taken apart, by the page."""
    found = 0
    for size in _pages(iterations):
        found += len(_RULE.findall(_NOTE * size))
    return found


def _sort(iterations: int) -> int:
    """48 vehicles by how far they are, then by price."""
    first = 0
    for _ in repeat(None, iterations):
        first = sorted(_VEHICLES, key=lambda vehicle: (vehicle[0] >> 4, vehicle[2]))[0][2]
    return first


def _template(iterations: int) -> int:
    """A receipt's line by Jinja."""
    length = 0
    for _ in repeat(None, iterations):
        length += len(_LINE.render(_RIDE))
    return length


def _pages(iterations: int) -> list[int]:
    pages, rest = divmod(iterations, _PAGE)
    return [_PAGE] * pages + ([rest] if rest else [])


WORKS: Final[Mapping[str, Callable[[int], int]]] = {
    "burn": _burn,
    "geometry": _geometry,
    "json": _json,
    "regex": _regex,
    "sort": _sort,
    "template": _template,
}


def perform(work: str, iterations: int) -> int:
    """Does it; blocks this thread, never waits. The number depends on `iterations` alone."""
    return WORKS[work](iterations)


def iterations_per_ms(rounds: int = _ROUNDS) -> dict[str, float]:
    """How many iterations of each kind make one millisecond of this thread's CPU time.

    Of `rounds` of about 2 ms the lower quartile of their times: neighbours slow a round down (caches, a core's other
    thread), nothing makes one faster. Cost: some 0.4 s in all.
    """
    return {work: _rate(call, rounds) for work, call in WORKS.items()}


def _rate(call: Callable[[int], int], rounds: int) -> float:
    # The interpreter specialises a loop while it runs for the first time.
    size = 64
    while (took_ms := _took_ms(call, size)) < _ROUND_MS / 2:
        size = max(size + 1, min(size * 8, int(size * _ROUND_MS / max(took_ms, 1e-3))))
    return size / statistics.quantiles((_took_ms(call, size) for _ in range(max(2, rounds))), n=4)[0]


def _took_ms(call: Callable[[int], int], iterations: int) -> float:
    began_ns = time.thread_time_ns()
    call(iterations)
    return (time.thread_time_ns() - began_ns) / 1e6


def from_environment(text: str | None = None) -> dict[str, float]:
    """What OFFERS_ITERATIONS (or `text`) says, a JSON object; measured now when it is unset.

    Raises:
        ValueError: it is no object with a positive number for each kind.
    """
    text = os.environ.get("OFFERS_ITERATIONS") if text is None else text
    if not text:
        return iterations_per_ms()
    try:
        given = json.loads(text)
        found = {work: float(given[work]) for work in WORKS}
    except (KeyError, TypeError, ValueError):
        found = {}
    if not found or not min(found.values()) > 0:
        rule = f"a JSON object with iterations in 1 ms for each of {', '.join(WORKS)}"
        raise ValueError(f"set up the work: OFFERS_ITERATIONS={text!r}, expected {rule}\nhint: python -m offers.work")
    return found


def main() -> None:
    """Prints them."""
    found = {work: round(rate, 4) for work, rate in iterations_per_ms().items()}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
