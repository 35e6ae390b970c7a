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
from greenlane.errors import HostError
from greenlane.export import otel
from greenlane.metrics import ATTRIBUTES, COUNTERS
from greenlane_tools.reader import open_recording

trace = pytest.importorskip("opentelemetry.sdk.trace")
metrics = pytest.importorskip("opentelemetry.sdk.metrics")

from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
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


def test_the_recording_knows_its_jobs_traces(telemetry: Telemetry, recorder: Recorder, tmp_path: Path) -> None:
    job = recorder.open(clock="handler")
    recorder.name("GET /bikes")
    with telemetry.tracer.start_as_current_span("GET", kind=SpanKind.SERVER) as span:
        # The outermost server span counts.
        with telemetry.tracer.start_as_current_span("inside", kind=SpanKind.SERVER):
            pass
    recorder.close(job)
    recorder.stop()
    recording = open_recording(tmp_path)
    [row] = recording.jobs
    context = span.get_span_context()
    assert (row.trace_id, row.span_id) == (context.trace_id, context.span_id)


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
    with pytest.raises(HostError, match=r"pip install .opentelemetry-api>=1\.30"):
        otel.observe()
    with pytest.raises(HostError, match=r"pip install .opentelemetry-api>=1\.30"):
        otel.SpanTimes()
