"""What Sentry and OpenTelemetry would be sent by a worker, in a file: real libraries, with a last step of our own."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import sentry_sdk
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from sentry_sdk.transport import Transport

__all__ = ["events_into", "spans_into"]


def _write(path: str, what: object) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, (json.dumps(what, default=str) + "\n").encode())
    os.close(file)


def events_into(path: str) -> None:
    """Switch Sentry on, as its manual says for Celery; each event is a line of this file."""

    class Lines(Transport):
        def capture_envelope(self, envelope: Any) -> None:
            event = envelope.get_event()
            if event is not None:
                _write(path, event)

    sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", transport=Lines, send_default_pii=True)


def spans_into(path: str) -> None:
    """Switch OpenTelemetry on; each span is a line of this file: name, kind, trace, its parent's id, status."""

    class Lines(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            for span in spans:
                parent = span.parent and f"{span.parent.span_id:016x}"
                _write(path, [span.name, f"{span.context.trace_id:032x}", parent, span.status.status_code.name])
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines()))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()
