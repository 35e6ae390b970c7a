"""Who made a traced job wait, as spans of its own trace: sent after the recording, to where its other spans are.

    sent = send(recording, recording.jobs, exporter("http://127.0.0.1:4318"))

Under the job's server span: for each wait of at least 1 ms a span `wait: loop`, with who had the CPU meanwhile, and for
each call of an upstream a span with its three clocks. Jobs without a trace are left out.

The SDK of OpenTelemetry is the extra `greenlane[otel]`. Cost: about 50 us a span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from greenlane.errors import GreenlaneError, HostError
from greenlane_tools.reader.rows import Call, Job
from greenlane_tools.report.subject import RecordedRows

__all__ = ["SERVICE", "BlameSpan", "exporter", "send", "told"]

#: As whose spans tracing tools show them.
SERVICE: Final = "greenlane"
#: Shorter waits are not worth a span.
_LEAST_NS: Final = 1_000_000
#: Spans in one request to the collector; OpenTelemetry's own default.
_AT_ONCE: Final = 512
#: Culprits named by one span.
_MOST: Final = 5


class BlameSpan(NamedTuple):
    """One span: times are ns of the recording's clock."""

    name: str
    from_ns: int
    to_ns: int
    attributes: dict[str, str | float | Sequence[str]]


def exporter(url: str) -> Any:
    """What sends them to a collector over HTTP, as protobuf.

    Args:
        url: of the collector, without a path, as OTEL_EXPORTER_OTLP_ENDPOINT has it.

    Raises:
        HostError: OpenTelemetry's exporter is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise _missing() from None
    return OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces")


def send(recording: RecordedRows, jobs: Iterable[Job], exporter: Any) -> int:
    """Give them to an exporter of the SDK; the number of spans. Blocks until they are sent.

    Args:
        jobs: of the recording; those without a trace are skipped.
        exporter: a `SpanExporter`; it is shut down.

    Raises:
        HostError: OpenTelemetry's SDK is not installed.
        GreenlaneError: the collector did not take them.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    except ImportError:
        raise _missing() from None
    made: list[Any] = []
    resource = Resource.create({"service.name": SERVICE})
    # All spans are sent, whatever the environment says about sampling.
    provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(_kept(made))
    tracer = provider.get_tracer(SERVICE)
    offsets = {process.number: _offset_ns(process.about) for process in recording.processes}
    calls: dict[tuple[int, int], list[Call]] = {}
    for call in recording.calls:
        calls.setdefault((call.process, call.job), []).append(call)
    for job in jobs:
        if not job.trace_id or offsets.get(job.process) is None:
            continue
        parent = trace.SpanContext(job.trace_id, job.span_id, is_remote=True, trace_flags=trace.TraceFlags(1))
        context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
        offset_ns = offsets[job.process] or 0
        for one in told(recording, job, calls.get((job.process, job.job), [])):
            span = tracer.start_span(one.name, context, start_time=one.from_ns + offset_ns, attributes=one.attributes)
            span.end(one.to_ns + offset_ns)
    _export(made, exporter)
    return len(made)


def told(recording: RecordedRows, job: Job, calls: Iterable[Call]) -> Iterator[BlameSpan]:
    """The spans of one job."""
    for call in calls:
        yield _call(recording, job, call)
    for each in recording.segments(job.process, job.job):
        if each.state == "wait" and each.to_ns - each.from_ns >= _LEAST_NS:
            found = recording.culprits(job.process, job.job, each.from_ns, each.to_ns)
            said = {"greenlane.wait_ms": (each.to_ns - each.from_ns) / 1e6, **_blamed(found)}
            yield BlameSpan(f"wait: {each.kind}", each.from_ns, each.to_ns, {"greenlane.wait.kind": each.kind, **said})


def _kept(made: list[Any]) -> Any:
    """A processor that puts what has ended into a list."""
    from opentelemetry.sdk.trace import SpanProcessor

    class Kept(SpanProcessor):
        def on_end(self, span: Any) -> None:
            made.append(span)

    return Kept()


def _export(made: Sequence[Any], exporter: Any) -> None:
    """Send them, and know whether they were taken: a batch processor would only log that they were not."""
    from opentelemetry.sdk.trace.export import SpanExportResult

    try:
        for first in range(0, len(made), _AT_ONCE):
            if exporter.export(made[first : first + _AT_ONCE]) is not SpanExportResult.SUCCESS:
                raise GreenlaneError(
                    "send spans",
                    name="collector",
                    value=getattr(exporter, "_endpoint", None),
                    rule="a collector that takes OTLP over HTTP",
                    hint="give its URL without a path, such as http://127.0.0.1:4318",
                )
    finally:
        exporter.shutdown()


def _call(recording: RecordedRows, job: Job, call: Call) -> BlameSpan:
    said: dict[str, str | float | Sequence[str]] = {"greenlane.seen_ms": (call.to_ns - call.from_ns) / 1e6}
    if call.ready_ns:
        said |= {"greenlane.wire_ms": call.wire_ns / 1e6, "greenlane.late_ms": call.late_ns / 1e6}
    if call.own_ns:
        said |= {"greenlane.upstream_ms": call.own_ns / 1e6}
    if base_ns := call.own_ns or (call.wire_ns if call.ready_ns else 0):
        said["greenlane.factor"] = round((call.to_ns - call.from_ns) / base_ns, 2)
    said |= _blamed(recording.culprits(job.process, job.job, call.from_ns, call.to_ns))
    return BlameSpan(f"{call.upstream} {call.operation}".strip() or "call", call.from_ns, call.to_ns, said)


def _blamed(found: Sequence[tuple[str, int]]) -> dict[str, str | float | Sequence[str]]:
    if not found:
        return {}
    named = [f"{culprit} {ns / 1e6:.1f} ms" for culprit, ns in found[:_MOST]]
    return {"greenlane.culprit": found[0][0], "greenlane.culprits": named}


def _offset_ns(about: dict[str, object]) -> int | None:
    """What turns the recording's times into dates; None = the recording does not say."""
    here, there = about.get("started_ns"), about.get("started_unix_ns")
    return there - here if isinstance(here, int) and isinstance(there, int) else None


def _missing() -> HostError:
    return HostError(
        "send spans",
        name="opentelemetry",
        value=None,
        rule="its SDK installed",
        hint="pip install 'greenlane[otel]'",
    )
