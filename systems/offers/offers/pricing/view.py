"""One endpoint of the table as a view of Flask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, jsonify, request

from offers.drawn import drawn
from offers.pricing.asking import UpstreamFailed, Upstreams
from offers.pricing.request import Asked, BadRequest, read
from offers.pricing.steps import Done, run
from offers.table import Endpoint

__all__ = ["reply", "view"]


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
