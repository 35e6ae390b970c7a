"""Spans of every hop in a real Jaeger, as one trace, and after the recording who made the offer wait."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from offers import work
from offers.site import Site
from offers.slow_offer.case import case_of, rows_of
from offers.slow_offer.service import Recorded
from offers.slow_offer.staged import Plan, staged
from tests.servers import Jaeger

pytestmark = [pytest.mark.system, pytest.mark.slow]

GREENLANE = (sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")


#: Of an ordinary machine: nothing here depends on them, and measuring them takes seconds.
ITERATIONS = json.dumps(dict.fromkeys(work.WORKS, 120.0))
#: The span that a rider's phone says it is in, and who must have a part in its trace.
RIDER = "00f067aa0ba902b7"
ALL = {"offerservice", "pricing", "upstream-python", "upstream-go"}


def tags(span: dict[str, Any]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in span["tags"]}


def service_of(trace: dict[str, Any], span: dict[str, Any]) -> str:
    return str(trace["processes"][span["processID"]]["serviceName"])


def services(trace: dict[str, Any]) -> set[str]:
    return {service_of(trace, span) for span in trace["spans"]}


def parents_known(trace: dict[str, Any]) -> bool:
    known = {span["spanID"] for span in trace["spans"]} | {RIDER}
    return all(parent_of(span) in known for span in trace["spans"])


def parent_of(span: dict[str, Any]) -> str:
    return next((one["spanID"] for one in span["references"] if one["refType"] == "CHILD_OF"), "")


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go: scripts/toolchain go names the command")
def test_from_the_rider_to_the_upstreams_of_both_languages_it_is_one_trace(
    jaeger: Jaeger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", jaeger.endpoint)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    rates = dict.fromkeys(work.WORKS, 5.0)
    number = f"{secrets.randbits(128) or 1:032x}"
    with Site(tmp_path, iterations={"python": rates, "go": rates}) as site:
        offers = site.offerservice(site.pricing("gevent"))
        asked = urllib.request.Request(f"{offers.url}/offers?region=hills&id=traced-1")
        asked.add_header("traceparent", f"00-{number}-{RIDER}-01")
        with urllib.request.urlopen(asked, timeout=10) as answer:
            made = {offer["mode"] for offer in json.load(answer)["offers"]}
        # Spans come in batches, from each process on its own.
        trace = jaeger.trace(number, lambda found: services(found) == ALL and parents_known(found))
    assert services(trace) == ALL
    spans = {span["spanID"]: span for span in trace["spans"]}
    [rider] = [span for span in spans.values() if parent_of(span) == RIDER]
    assert service_of(trace, rider) == "offerservice"
    assert parents_known(trace)
    modes = [tags(span) for span in spans.values() if "offers.mode" in tags(span)]
    assert {said["offers.mode"] for said in modes if said["offers.outcome"] == "made"} == made
    # Who was asked says how long it took, and who asked wrote it down.
    for span in spans.values():
        if service_of(trace, span).startswith("upstream-"):
            asker = tags(spans[parent_of(span)])
            assert tags(span)["offers.upstream_ms"] == asker["offers.upstream_ms"]
            assert service_of(trace, spans[parent_of(span)]) in ("pricing", "offerservice")


def test_an_offer_is_one_trace_from_pricing_to_the_upstreams_and_says_what_it_waited_for(
    jaeger: Jaeger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFERS_ITERATIONS", ITERATIONS)
    traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": jaeger.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    with Recorded(tmp_path, traced) as service:
        staged(service, Plan(heavy=12, heavy_ms=50))
    number = case_of(rows_of(service.recording)).trace
    assert number is not None
    trace = jaeger.trace(number, lambda found: len(found["spans"]) >= 9)
    by_service: dict[str, list[dict[str, Any]]] = {}
    for span in trace["spans"]:
        by_service.setdefault(service_of(trace, span), []).append(span)
    assert {name: len(spans) for name, spans in by_service.items()} == {"pricing": 5, "upstream-python": 4}
    [root] = [span for span in by_service["pricing"] if tags(span)["span.kind"] == "server"]
    calls = [span for span in by_service["pricing"] if span is not root]
    assert [parent_of(call) for call in calls] == [root["spanID"]] * 4
    assert {parent_of(span) for span in by_service["upstream-python"]} == {call["spanID"] for call in calls}
    assert {tags(call)["offers.upstream"] for call in calls} == {"zones", "eta", "routing", "rules"}
    assert all(tags(call)["offers.upstream_ms"] > 0 for call in calls)
    assert tags(root)["greenlane.wait_ms"] > 0 and tags(root)["http.route"] == "/v1/bikes/price"
