"""Spans of pricing and of an upstream, as a collector gets them; and nothing at all unless they are asked for."""

from __future__ import annotations

import gzip
import http.server
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenlane_tools.lab.processes import found_by, free_port
from offers import work
from offers.site import ROOT, Process

OTLP = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

#: Of an ordinary machine: nothing here depends on them, and measuring them takes seconds.
ITERATIONS = json.dumps(dict.fromkeys(work.WORKS, 120.0))
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

#: The application, asked without a server; it ends as a worker does.
ASK = """
import sys
from offers.pricing.application import app
answer = app.test_client().get("/v1/bikes/price?id=a-1", headers={"traceparent": sys.argv[1]})
assert answer.status_code == 200, answer.data
"""
OFF = """
import sys
from offers import traced
from offers.pricing.application import app
assert traced.middlewares() == [] and not traced.enabled()
assert app.test_client().get("/v1/bikes/unlock-fee").status_code == 200
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


class Collector:
    """Takes OTLP over HTTP and keeps the spans, by name of the service that sent them."""

    def __init__(self) -> None:
        self.spans: dict[str, list[Any]] = {}
        outer = self

        class Taker(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.take(OTLP.ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *ignored: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taker)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, request: Any) -> None:
        for resource in request.resource_spans:
            name = next(one.value.string_value for one in resource.resource.attributes if one.key == "service.name")
            self.spans.setdefault(name, []).extend(span for scope in resource.scope_spans for span in scope.spans)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    with collector.server as server:
        threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True).start()
        yield collector
        server.shutdown()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@pytest.mark.slow
@pytest.mark.system
def test_a_request_is_a_span_its_calls_are_and_so_is_what_the_upstreams_do(
    collector: Collector, tmp_path: Path
) -> None:
    added = {"OFFERS_ITERATIONS": ITERATIONS, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    port, names = free_port(), ("eta", "routing", "zones", "rules")
    argv = [sys.executable, "-m", "offers.upstreams", "--port", str(port), "--names", ",".join(names)]
    upstreams = Process(argv, tmp_path / "upstreams.log", added)
    try:
        upstreams.wait_for_port(port)
        known = ",".join(f"{name}=127.0.0.1:{port}" for name in names)
        env = {**found_by(ROOT), **added, "OFFERS_UPSTREAMS": known}
        subprocess.run([sys.executable, "-c", ASK, f"00-{TRACE}-{CALLER}-01"], env=env, check=True)
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").close()
    finally:
        upstreams.end()  # what is left goes out then
    assert {name: len(spans) for name, spans in collector.spans.items()} == {"pricing": 5, "upstream-python": 4}
    assert {span.trace_id.hex() for spans in collector.spans.values() for span in spans} == {TRACE}
    [root] = [span for span in collector.spans["pricing"] if span.parent_span_id.hex() == CALLER]
    assert root.name == "GET /v1/bikes/price" and attributes(root)["http.route"] == "/v1/bikes/price"
    calls = {span.span_id: span for span in collector.spans["pricing"] if span is not root}
    assert {span.parent_span_id for span in calls.values()} == {root.span_id}
    assert [span.name for span in sorted(calls.values(), key=lambda span: span.start_time_unix_nano)] == [
        "GET /zones", "GET /eta", "GET /routing", "GET /rules",
    ]  # fmt: skip
    for served in collector.spans["upstream-python"]:
        asked = calls[served.parent_span_id]
        assert served.name == asked.name
        assert attributes(served)["offers.upstream_ms"] == attributes(asked)["offers.upstream_ms"] > 0
        assert attributes(asked)["offers.upstream"] == attributes(served)["offers.upstream"]


@pytest.mark.slow
def test_unless_asked_for_nothing_is_traced_and_nothing_of_it_loaded() -> None:
    env = {name: value for name, value in found_by(ROOT).items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", OFF], env={**env, "OFFERS_ITERATIONS": ITERATIONS}, check=True)


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    from offers import traced

    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        for value, wanted in (("", False), ("http://127.0.0.1:4318", True)):
            monkeypatch.setenv(name, value)
            assert traced.enabled() is wanted
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        assert not traced.enabled()
        monkeypatch.delenv("OTEL_SDK_DISABLED")
        monkeypatch.delenv(name)
