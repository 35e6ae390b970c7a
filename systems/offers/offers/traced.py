"""OpenTelemetry of pricing and the upstreams in Python: spans of what is served and what is asked, W3C trace context.

    traced.flask(app)                  pricing: a span a request, a span a call of an upstream
    web.Application(middlewares=traced.middlewares())      upstreams

Off unless OTEL_EXPORTER_OTLP_ENDPOINT (or …_TRACES_ENDPOINT) is set: then nothing of OpenTelemetry is imported, and
nothing is patched. The SDK reads its own variables: OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_BSP_SCHEDULE_DELAY, …
Spans go out in batches over HTTP, as protobuf; what is left goes out when the process ends.

Attributes beside the conventions': of calls `offers.upstream`, of calls and upstreams `offers.upstream_ms`, the time by
the upstream's own clock. Under `greenlane record` pricing's spans
also say what they waited for, without code here.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aiohttp import web
    from flask import Flask

#: Either says where spans go; the Go programs read the same.
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
#: Of an upstream's reply: its own clock.
_CLOCK: Final = "x-upstream-ms"


def enabled() -> bool:
    """Whether spans are wanted here."""
    return any(map(os.environ.get, _ENDPOINTS)) and os.environ.get("OTEL_SDK_DISABLED") != "true"


def flask(app: Flask) -> None:
    """Trace an application and what it asks over urllib3; nothing unless enabled."""
    if not enabled():
        return
    _export("pricing")
    from opentelemetry.instrumentation.flask import FlaskInstrumentor
    from opentelemetry.instrumentation.urllib3 import URLLib3Instrumentor

    instrument_flask: Any = FlaskInstrumentor().instrument_app
    instrument_flask(app, excluded_urls="healthz,ready")
    URLLib3Instrumentor().instrument(response_hook=_asked)


def middlewares() -> list[Any]:
    """What an application of aiohttp is given; none unless enabled."""
    if not enabled():
        return []
    _export("upstream-python")
    from aiohttp import web

    return [web.middleware(_served)]


@functools.cache
def _export(service: str) -> None:
    """Spans of this process go out, under the name of `service` unless OTEL_SERVICE_NAME says otherwise."""
    # The names that HTTP's attributes have had since 1.23.
    os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME") or service
    provider = TracerProvider(resource=Resource.create({"service.name": name}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    atexit.register(provider.shutdown)


def _asked(span: Any, pool: Any, response: Any) -> None:
    """What a call's span says besides: urllib3's response hook."""
    path = (getattr(response, "url", None) or getattr(response, "_request_url", None) or "").partition("?")[0]
    upstream = path.rpartition("/")[2]
    if upstream:
        span.update_name(f"GET /{upstream}")
        span.set_attribute("offers.upstream", upstream)
        span.set_attribute("url.path", f"/{upstream}")
    if (told := response.headers.get(_CLOCK)) is not None:
        span.set_attribute("offers.upstream_ms", float(told))


async def _served(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
    """A span around one request of an upstream; the parameters are named by aiohttp."""
    from opentelemetry import propagate, trace

    if request.path in ("/healthz", "/ready", "/counts"):
        return await handler(request)
    tracer = trace.get_tracer("offers.upstreams")
    said = {"http.request.method": request.method, "http.route": request.path, "url.path": request.path}
    with tracer.start_as_current_span(
        f"{request.method} {request.path}",
        context=propagate.extract(request.headers),
        kind=trace.SpanKind.SERVER,
        attributes={**said, "offers.upstream": request.path[1:]},
    ) as span:
        response = await handler(request)
        span.set_attribute("http.response.status_code", response.status)
        if (told := response.headers.get(_CLOCK)) is not None:
            span.set_attribute("offers.upstream_ms", float(told))
        return response
