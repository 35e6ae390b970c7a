"""Spans of every hop in a real Jaeger, as one trace."""

from __future__ import annotations

import json
import secrets
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from offers import work
from offers.site import Site
from tests.servers import Jaeger

pytestmark = [pytest.mark.system, pytest.mark.slow]

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
