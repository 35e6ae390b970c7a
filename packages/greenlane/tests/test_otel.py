"""OpenTelemetry: a server span says where its time went, a meter is told what the process knows."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenlane import phase
from greenlane._native import Recorder
from greenlane.errors import GreenlaneError, HostError
from greenlane.export import otel
from greenlane.metrics import ATTRIBUTES, COUNTERS
from greenlane_tools.reader import Recording, open_recording
from greenlane_tools.report import blame_spans
from tests.recordings import slow_offer

trace = pytest.importorskip("opentelemetry.sdk.trace")
metrics = pytest.importorskip("opentelemetry.sdk.metrics")

from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.trace import SpanKind  # noqa: E402

pytestmark = pytest.mark.measured

BLOCKED_S = 0.02
#: What turns a recording's times into dates.
DATED_NS = 1_700_000_000_000_000_000
COMPUTED_S = 0.005


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder()
    recorder.start(tmp_path, max_bytes=1 << 24, about="{}")
    try:
        yield recorder
    finally:
        recorder.stop()


class Telemetry:
    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.meters = metrics.MeterProvider(metric_readers=[self.reader])
        self.spans = InMemorySpanExporter()
        provider = trace.TracerProvider()
        provider.add_span_processor(otel.SpanTimes(self.meters))
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = provider.get_tracer("test")

    def attributes(self) -> dict[str, Any]:
        [span] = self.spans.get_finished_spans()
        return dict(span.attributes or {})

    def collected(self) -> dict[str, list[Any]]:
        """Name -> data points."""
        told = self.reader.get_metrics_data()
        scopes = [scope for resource in (told.resource_metrics if told else ()) for scope in resource.scope_metrics]
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def test_a_server_span_says_where_its_time_went(telemetry: Telemetry, recorder: Recorder) -> None:
    with telemetry.tracer.start_as_current_span("GET", kind=SpanKind.SERVER, attributes={"http.route": "/bikes"}):
        for kind in (phase.Kind.SOCKET, phase.Kind.LOCK):
            recorder.leave(kind)
            time.sleep(BLOCKED_S)  # what is measured
            recorder.enter()
        begun_s = time.thread_time()
        while time.thread_time() - begun_s < COMPUTED_S:
            pass
        now_ns = time.monotonic_ns()
        recorder.waited("pool", now_ns - 5_000_000, now_ns)
    told = telemetry.attributes()
    assert told["http.route"] == "/bikes"
    assert told["greenlane.io_ms"] >= BLOCKED_S * 1000
    assert told["greenlane.wait.pool_ms"] == 5
    assert told["greenlane.wait.lock_ms"] >= BLOCKED_S * 1000 - 5
    assert told["greenlane.wait_ms"] == pytest.approx(told["greenlane.wait.pool_ms"] + told["greenlane.wait.lock_ms"])
    assert told["greenlane.cpu_ms"] >= COMPUTED_S * 1000 / 2
    assert {name for name in told if name.startswith("greenlane.")} <= set(ATTRIBUTES)
    parts = {point.attributes["part"]: point for point in telemetry.collected()["greenlane_job_part_seconds"]}
    assert set(parts) == {"cpu", "io", "wait"}
    assert parts["io"].sum == pytest.approx(told["greenlane.io_ms"] / 1000)
    assert parts["io"].attributes["http.route"] == "/bikes"


def test_the_recording_knows_its_jobs_traces_and_sends_what_they_waited_after_them(
    telemetry: Telemetry, recorder: Recorder, tmp_path: Path
) -> None:
    job = recorder.open(clock="handler")
    recorder.name("GET /bikes")
    with telemetry.tracer.start_as_current_span("GET", kind=SpanKind.SERVER) as span:
        # The outermost server span counts.
        with telemetry.tracer.start_as_current_span("inside", kind=SpanKind.SERVER):
            now_ns = time.monotonic_ns()
            recorder.leave(phase.Kind.SOCKET)
            time.sleep(BLOCKED_S)
            recorder.enter()
            recorder.call(now_ns, time.monotonic_ns(), time.monotonic_ns(), 0, "eta:1", "GET /eta", 0, 5_000_000)
    recorder.close(job)
    recorder.stop()
    recording = open_recording(tmp_path)
    [row] = recording.jobs
    context = span.get_span_context()
    assert (row.trace_id, row.span_id) == (context.trace_id, context.span_id)

    sent = InMemorySpanExporter()
    assert blame_spans.send(_dated(recording), [row, row._replace(trace_id=0)], sent) == 1
    [told] = sent.get_finished_spans()
    assert told.parent is not None and told.context is not None
    assert (told.context.trace_id, told.parent.span_id) == (context.trace_id, context.span_id)
    assert (told.name, told.resource.attributes["service.name"]) == ("eta:1 GET /eta", "greenlane")
    assert told.attributes is not None
    assert told.attributes["greenlane.upstream_ms"] == 5
    assert told.attributes["greenlane.factor"] >= BLOCKED_S * 1000 / 5
    begun_ns, ended_ns = told.start_time or 0, told.end_time or 0
    assert ended_ns - begun_ns == recording.calls[0].to_ns - recording.calls[0].from_ns
    assert begun_ns == recording.calls[0].from_ns + DATED_NS


def _dated(recording: Recording) -> Recording:
    """With what a whole process says of itself: when it was."""
    about: dict[str, object] = {"started_ns": 0, "started_unix_ns": DATED_NS}
    recording.processes = [process._replace(about=about) for process in recording.processes]
    return recording


def test_who_made_a_job_wait_is_a_span_of_its_trace() -> None:
    slow = Recording(slow_offer())
    sent = InMemorySpanExporter()
    assert blame_spans.send(_dated(slow), slow.jobs, sent) == 2
    by_name = {span.name: dict(span.attributes or {}) for span in sent.get_finished_spans()}
    assert by_name["wait: loop"] == {
        "greenlane.wait.kind": "loop",
        "greenlane.wait_ms": 5189.0,
        "greenlane.culprit": "GET /v1/receipts/month",
        "greenlane.culprits": ("GET /v1/receipts/month 5189.0 ms",),
    }
    call = by_name["routing:80 GET /routing"]
    assert (call["greenlane.upstream_ms"], call["greenlane.wire_ms"], call["greenlane.seen_ms"]) == (110, 111, 5300)
    assert (call["greenlane.factor"], call["greenlane.culprit"]) == (48.18, "GET /v1/receipts/month")


def test_a_collector_that_takes_nothing_is_an_error_and_not_a_word_in_a_log() -> None:
    class Refusing(InMemorySpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.FAILURE

    slow = Recording(slow_offer())
    with pytest.raises(GreenlaneError, match="a collector that takes OTLP"):
        blame_spans.send(_dated(slow), slow.jobs, Refusing())


def test_spans_are_sent_whatever_the_environment_says_of_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    slow, sent = Recording(slow_offer()), InMemorySpanExporter()
    assert blame_spans.send(_dated(slow), slow.jobs * 400, sent) == len(sent.get_finished_spans()) == 800


PROVIDER = """
import sys
from greenlane.wiring.recording import start_recording
from greenlane.settings import Settings
running = start_recording(Settings(record_folder=sys.argv[1]))
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from greenlane.export import otel

def told(*processors):
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    for processor in (*processors, SimpleSpanProcessor(spans)):
        provider.add_span_processor(processor)
    job = running.recorder.open()
    with provider.get_tracer("a").start_as_current_span("GET", kind=SpanKind.SERVER) as span:
        pass
    running.recorder.close(job)
    return span, dict(spans.get_finished_spans()[0].attributes)

span, attributes = told()
assert "greenlane.cpu_ms" in attributes, attributes
again, attributes = told(otel.SpanTimes())
assert "greenlane.cpu_ms" in attributes and not hasattr(again.end.original, "original")
running.end()
assert told()[1] == {}
from greenlane_tools.reader import open_recording
jobs = open_recording(sys.argv[1]).jobs
assert [job.trace_id for job in jobs] == [one.get_span_context().trace_id for one in (span, again)], jobs
"""


@pytest.mark.slow
def test_a_recorded_process_tells_its_spans_without_a_word_in_the_program(run_python: Any, tmp_path: Path) -> None:
    run_python(PROVIDER, str(tmp_path / "parts"))


@pytest.mark.parametrize("kind", [SpanKind.CLIENT, SpanKind.INTERNAL])
def test_other_spans_stay_as_they_are(telemetry: Telemetry, recorder: Recorder, kind: SpanKind) -> None:
    with telemetry.tracer.start_as_current_span("GET", kind=kind):
        pass
    assert telemetry.attributes() == {}


def test_while_nothing_is_recorded_spans_stay_as_they_are(telemetry: Telemetry) -> None:
    with telemetry.tracer.start_as_current_span("GET", kind=SpanKind.SERVER):
        pass
    assert telemetry.attributes() == {}


def test_a_span_that_ends_on_another_thread_has_no_times(telemetry: Telemetry, recorder: Recorder) -> None:
    span = telemetry.tracer.start_span("GET", kind=SpanKind.SERVER)
    thread = threading.Thread(target=span.end)
    thread.start()
    thread.join()
    assert telemetry.attributes() == {}


def test_a_meter_is_told_counters_gauges_and_the_signals_for_autoscaling(
    telemetry: Telemetry, recorder: Recorder
) -> None:
    counted = dict.fromkeys(COUNTERS, 2_000_000_000)
    otel.observe(lambda: counted, lambda: (1, 3), meter_provider=telemetry.meters)
    job = recorder.open(clock="handler")
    recorder.flush()
    found = telemetry.collected()
    assert found["greenlane_permit_wait_seconds"][0].value == 2
    assert {point.attributes["reason"] for point in found["greenlane_permits_lent"]} == {"still", "released", "overrun"}
    assert found["greenlane_heavy_phases_waiting"][0].value == 3
    assert found["greenlane_recording"][0].value == 1
    assert found["greenlane_jobs_in_progress"][0].value == 1
    assert 0 <= found["greenlane_busy_ratio"][0].value
    assert found["greenlane_lag_p99_seconds"][0].value >= 0
    recorder.close(job)


def test_a_process_that_does_not_record_tells_nothing_of_a_recorder(telemetry: Telemetry) -> None:
    otel.observe(meter_provider=telemetry.meters)
    assert telemetry.collected() == {}


def test_without_the_api_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(HostError, match=r"greenlane\[otel\]"):
        otel.observe()
    with pytest.raises(HostError, match=r"greenlane\[otel\]"):
        otel.SpanTimes()
