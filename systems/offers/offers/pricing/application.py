"""pricingservice as a WSGI application: `gunicorn offers.pricing.application:app`.

Any server serves it unchanged: it starts no thread, patches nothing and takes no lock of its own.

Environment:
    OFFERS_UPSTREAMS     eta=127.0.0.1:7001,routing=…: where upstreams are; one that is left out answers 502
    OFFERS_ITERATIONS    iterations in one millisecond of CPU, as `python -m offers.work` prints them; unset = measured
    OFFERS_TABLE         folder of the table; beside the package
    OTEL_EXPORTER_OTLP_ENDPOINT   where spans go; unset = nothing is traced (see offers.traced)
"""

from __future__ import annotations

from flask import Flask

from offers import table, traced, work
from offers.pricing.view import Upstreams, view

__all__ = ["app", "application"]


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
