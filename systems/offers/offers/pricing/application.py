"""pricingservice as a WSGI application: `gunicorn offers.pricing.application:app`.

Any server serves it unchanged: it starts no thread, patches nothing and takes no lock of its own.

Environment:
    OFFERS_UPSTREAMS     eta=127.0.0.1:7001,routing=…: where upstreams are; one that is left out answers 502
    OFFERS_ITERATIONS    iterations in one millisecond of CPU, as `python -m offers.work` prints them; unset = measured
    OFFERS_TABLE         folder of the table; beside the package
    OTEL_EXPORTER_OTLP_ENDPOINT   where spans go; unset = nothing is traced (see offers.traced)
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from flask import Flask, Response, jsonify, request

from offers import table, traced, work
from offers.table import Compute, Endpoint, drawn
from offers.work import MOST_MS, perform

# --- One endpoint of the table as a view of Flask.


def view(endpoint: Endpoint, rates: Mapping[str, float], upstreams: Upstreams) -> Callable[[], Response]:
    """What Flask calls for a request.

    Args:
        rates: iterations in one millisecond of CPU by kind of work.
    """

    def answer() -> Response:
        try:
            asked = read(endpoint.name, request.args)
            done = run(endpoint, asked, rates, upstreams)
        except BadRequest as error:
            return _failed(400, error)
        except UpstreamFailed as error:
            return _failed(502, error)
        response = jsonify(reply(endpoint, asked, done))
        response.headers.update(done.headers())
        return response

    return answer


def reply(endpoint: Endpoint, asked: Asked, done: Done) -> dict[str, Any]:
    """What is answered: the same for the same id."""
    if endpoint.kind != "offer":
        return {"endpoint": endpoint.name, "id": asked.id, "value": drawn(f"value-{endpoint.name}", asked.id) % 1000}
    return {
        "price_cents": 100 + drawn(f"price-{endpoint.name}", asked.id) % 900,
        "eta_s": done.replies.get("eta", {}).get("eta_s", 0),
        "route": done.replies.get("routing", {}).get("route", []),
    }


def _failed(status: int, error: Exception) -> Response:
    response = jsonify({"error": str(error)})
    response.status_code = status
    return response


# --- Upstreams, asked over kept connections.
#
# urllib3: pooled keep-alive at a third of the CPU that requests adds around it, and tracing libraries know it. A pool
# opens connections as needed and keeps up to `_KEPT`; nobody waits for one.

_KEPT: Final = 256
# Far beyond any upstream's latency law: a starved process shall be seen as slow, not as failing.
_PATIENCE_S: Final = 20.0


class UpstreamFailed(Exception):
    """An upstream is not known, not there, or did not answer 200; answered 502 with the message."""


class Upstreams:
    """Those of one process.

    Args:
        addresses: host:port by name.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._pools = {name: _pool(address) for name, address in addresses.items()}

    @classmethod
    def from_environment(cls) -> Upstreams:
        """What OFFERS_UPSTREAMS says.

        Raises:
            ValueError: it is no list of name=host:port.
        """
        text = os.environ.get("OFFERS_UPSTREAMS", "")
        pairs = [one.strip().partition("=") for one in text.split(",") if one.strip()]
        if not all(name and address.rpartition(":")[2].isdigit() for name, _, address in pairs):
            raise ValueError(f"set up upstreams: OFFERS_UPSTREAMS={text!r}, expected eta=127.0.0.1:7001,routing=…")
        return cls({name: address for name, _, address in pairs})

    def ask(self, upstream: str, call_id: str, region: str, endpoint: str) -> dict[str, Any]:
        """One call; blocks until it is answered.

        Raises:
            UpstreamFailed: no answer of 200.
        """
        pool = self._pools.get(upstream)
        if pool is None:
            raise UpstreamFailed(
                f"ask {upstream}: OFFERS_UPSTREAMS={list(self._pools)}, expected {upstream} among them"
            )
        path = f"/{upstream}?{urlencode({'id': call_id, 'region': region, 'endpoint': endpoint})}"
        try:
            answer = pool.request("GET", path)
        except urllib3.exceptions.HTTPError as error:
            raise UpstreamFailed(f"ask {upstream}: {error}, expected an answer") from error
        if answer.status != 200:
            raise UpstreamFailed(f"ask {upstream}: status={answer.status}, expected 200")
        found: dict[str, Any] = json.loads(answer.data)
        return found


def _pool(address: str) -> urllib3.HTTPConnectionPool:
    host, _, port = address.rpartition(":")
    # One more try: a kept connection may have been closed meanwhile, and a question changes nothing.
    return urllib3.HTTPConnectionPool(host, int(port), maxsize=_KEPT, timeout=_PATIENCE_S, retries=1)


# --- What a request says: `?region=hills&id=r17&w=1.37`.

#: More is a mistake.
MOST_W: Final = 100.0


class BadRequest(ValueError):
    """The request asks for what is not given; answered 400 with the message."""


@dataclass(frozen=True)
class Asked:
    """One request."""

    region: str
    #: Names everything drawn for it: upstreams' latencies, the reply.
    id: str
    #: Multiplies all CPU of the request.
    w: float


def read(endpoint: str, query: Mapping[str, str]) -> Asked:
    """The request. Without an id it is named after endpoint and w, all that a load generator varies.

    Raises:
        BadRequest: w is no number in reach.
    """
    text = query.get("w", "1")
    try:
        w = float(text)
    except ValueError:
        w = math.nan
    if not 0 < w <= MOST_W:
        raise BadRequest(f"price: w={text!r}, expected a number above 0, at most {MOST_W:g}")
    return Asked(query.get("region", ""), query.get("id") or f"{endpoint}-{text}", w)


# --- One request's computing and asking, step by step as the table has it, with what it came to.


@dataclass
class Done:
    """What one request came to."""

    #: Iterations by kind of work.
    iterations: dict[str, int] = field(default_factory=dict)
    #: Upstream and how long the call took as seen here, ms, in the order asked.
    calls: list[tuple[str, float]] = field(default_factory=list)
    #: The last reply of each upstream.
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """It as response headers: counts to compare twins by, and the calls' times as this service saw them."""
        headers = {}
        if self.iterations:
            headers["x-work"] = ",".join(f"{work}={count}" for work, count in sorted(self.iterations.items()))
        if self.calls:
            headers["x-calls"] = ",".join(name for name, _ in self.calls)
            headers["server-timing"] = ", ".join(f"{name};dur={took_ms:.2f}" for name, took_ms in self.calls)
        return headers


def run(endpoint: Endpoint, asked: Asked, rates: Mapping[str, float], upstreams: Upstreams) -> Done:
    """Goes through an endpoint's steps; blocks as long as they take.

    Raises:
        UpstreamFailed: an upstream did not answer.
    """
    done = Done()
    w = asked.w * min(1.0, MOST_MS / max(endpoint.cpu_ms * asked.w, 1e-9))
    for step in endpoint.steps:
        if isinstance(step, Compute):
            count = max(1, int(step.cpu_ms * w * rates[step.work]))
            perform(step.work, count)
            done.iterations[step.work] = done.iterations.get(step.work, 0) + count
        else:
            call_id = f"{asked.id}-{len(done.calls) + 1}"
            began_ns = time.perf_counter_ns()
            done.replies[step.upstream] = upstreams.ask(step.upstream, call_id, asked.region, endpoint.name)
            done.calls.append((step.upstream, (time.perf_counter_ns() - began_ns) / 1e6))
    return done


def application() -> Flask:
    """The application of the environment.

    Raises:
        TableError, ValueError: the table or a variable is not as it must be.
    """
    made = Flask("offers.pricing")
    # Answers in the order they are made in: nobody reads them sorted.
    made.json.sort_keys = False  # type: ignore[attr-defined]  # DefaultJSONProvider's
    rates, upstreams = work.from_environment(), Upstreams.from_environment()
    for endpoint in table.read().endpoints.values():
        made.add_url_rule(endpoint.path, endpoint.name, view(endpoint, rates, upstreams))
    for path in ("/healthz", "/ready"):
        made.add_url_rule(path, path[1:], _well)
    traced.flask(made)
    return made


def _well() -> str:
    return "ok"


app = application()
