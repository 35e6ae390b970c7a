"""The construction: heavy requests of one caller, at the instant at which one offer waits for `routing`.

Why this construction: gevent's loop runs what one look at its sockets finds ready, all of it, before it looks again.
So the offer waits for a whole batch that was found before its reply came: first one short heavy request (the spark),
which keeps the loop while the others arrive in the listen queue; they are accepted and run together behind it; 110 ms
after the question the reply is there, and nobody looks. Nothing is left to chance but the machine's speed.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from greenlane_tools.lab.processes import StartFailed
from offers import table
from offers.slow_offer.service import WATCHED, Recorded
from offers.upstreams.server import latency_ms

__all__ = ["HEAVY", "OFFER", "Plan", "staged"]

#: Who waits, and who computes.
OFFER: Final = "bikes_price"
HEAVY: Final = "receipt_month"
#: gevent leaves the rest of more callbacks for after a look at the sockets.
MOST_HEAVY: Final = 40
#: The article's upstream.
_UPSTREAM_MS: Final = 110.0
_SPARK_MS: Final = 20.0
#: Between the spark's arrival and the others': it computes by then.
_AFTER_SPARK_S: Final = 0.005
_LOOK_S: Final = 0.001
_PATIENCE_S: Final = 30.0


class Plan(NamedTuple):
    """How much is computed while the offer waits: `heavy` requests of `heavy_ms` each."""

    heavy: int = MOST_HEAVY
    heavy_ms: float = 132.0


def staged(service: Recorded, plan: Plan) -> tuple[str, dict[str, Any]]:
    """Runs it once; gives the offer's id, and its answer. Blocks for the sum of the heavy requests.

    Raises:
        OSError, StartFailed: pricing did not answer as it should.
    """
    endpoints = table.read().endpoints
    offer, heavy = endpoints[OFFER], endpoints[HEAVY]
    offer_id = _id_whose_call_takes(offer.calls.index(WATCHED) + 1)
    # Connections are there afterwards: what is measured is a call, not a handshake.
    _asked(f"http://{service.address}{offer.path}?id=first&region=hills")
    before = service.calls_of(OFFER)
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(
        target=lambda: answers.append(_asked(f"http://{service.address}{offer.path}?id={offer_id}&region=hills"))
    )
    asking.start()
    with contextlib.ExitStack() as connections:
        # Pricing asks one upstream after the other: with this count the offer waits for the watched one.
        _wait_for_call(service, before + offer.calls.index(WATCHED) + 1)
        asked = _requests(service, heavy.path, heavy.cpu_ms, plan)
        connections.enter_context(_sent(service.port, next(asked)))
        time.sleep(_AFTER_SPARK_S)
        for request in asked:
            connections.enter_context(_sent(service.port, request))
        asking.join(_PATIENCE_S)
    if not answers:
        raise StartFailed(f"ask for an offer: answer=None after {_PATIENCE_S:g} s, expected one; see pricing.log")
    return offer_id, answers[0]


def _id_whose_call_takes(number: int) -> str:
    """An id whose call of the watched upstream takes 110 ms: latencies are drawn from ids."""
    upstream = table.read().upstreams[WATCHED]
    ids = (f"slow-{n}" for n in range(100_000))
    return next(one for one in ids if abs(latency_ms(upstream, f"{one}-{number}") - _UPSTREAM_MS) < 0.05)


def _wait_for_call(service: Recorded, number: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while service.calls_of(OFFER) < number:
        if time.monotonic() > until:
            raise StartFailed(f"stage a slow offer: calls of {WATCHED}=0 after {_PATIENCE_S:g} s, expected one")
        time.sleep(_LOOK_S)


def _requests(service: Recorded, path: str, cpu_ms: float, plan: Plan) -> Iterator[bytes]:
    """The spark, then the others."""
    for number in range(plan.heavy + 1):
        w = (plan.heavy_ms if number else _SPARK_MS) / cpu_ms
        head = f"GET {path}?id=heavy-{number}&region=hills&w={w:.4f} HTTP/1.1"
        yield f"{head}\r\nHost: {service.address}\r\nConnection: close\r\n\r\n".encode()


@contextlib.contextmanager
def _sent(port: int, request: bytes) -> Iterator[None]:
    """A request on a connection of its own, open until the block ends; nobody reads the answer."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        yield


def _asked(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=_PATIENCE_S) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
