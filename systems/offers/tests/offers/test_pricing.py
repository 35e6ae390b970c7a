"""One request of pricingservice, in this process: what it computes, whom it asks, what it answers."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import pytest
from flask import Flask

from offers import table
from offers.pricing.application import Asked, BadRequest, Upstreams, read, run, view
from offers.work import WORKS

KNOWN = table.read(table.FOLDER)
#: So few iterations that requests take no time.
FEW = dict.fromkeys(WORKS, 2.0)


def test_work_is_counted_by_w() -> None:
    endpoint = KNOWN.endpoints["receipt_archive"]
    rates = {**FEW, "json": 3.0}
    done = run(endpoint, Asked("hills", "r1", 0.5), rates, Upstreams({}))
    assert done.headers() == {"x-work": "json=60,template=70"}


def test_a_step_is_never_nothing() -> None:
    done = run(KNOWN.endpoints["currency"], Asked("hills", "r1", 0.001), FEW, Upstreams({}))
    assert done.iterations == {"json": 1}


def test_a_request_computes_five_seconds_at_most() -> None:
    rates = dict.fromkeys(WORKS, 0.01)
    endpoint = KNOWN.endpoints["receipt_archive"]
    done = run(endpoint, Asked("hills", "r1", 100.0), rates, Upstreams({}))
    assert endpoint.cpu_ms * 100 > 5_000
    # 40 parts json to 70 parts template of 5,000 ms.
    assert done.iterations == {"json": int(5_000 * 40 / 110 * 0.01), "template": int(5_000 * 70 / 110 * 0.01)}


def test_a_request_without_an_id_is_named_after_endpoint_and_w() -> None:
    assert read("surge_map", {"w": "1.370", "region": "hills"}) == Asked("hills", "surge_map-1.370", 1.37)
    assert read("surge_map", {"id": "r7"}) == Asked("", "r7", 1.0)


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "nan", "inf", "100.1"])
def test_a_w_out_of_reach_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="expected a number above 0, at most 100"):
        read("surge_map", {"w": text})


def _client(endpoint: str, upstreams: Upstreams):  # type: ignore[no-untyped-def]
    app = Flask("test")
    one = KNOWN.endpoints[endpoint]
    app.add_url_rule(one.path, one.name, view(one, FEW, upstreams))
    return app.test_client(), one.path


def test_a_bad_w_is_answered_400() -> None:
    client, path = _client("currency", Upstreams({}))
    answer = client.get(f"{path}?w=many")
    assert (answer.status_code, "w='many'" in answer.json["error"]) == (400, True)


def test_an_upstream_that_is_not_known_or_not_there_is_answered_502() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = Upstreams({"zones": f"127.0.0.1:{nobody.getsockname()[1]}"})
        for upstreams, said in ((Upstreams({}), "expected zones among them"), (gone, "expected an answer")):
            client, path = _client("surge_factor", upstreams)
            answer = client.get(path)
            assert answer.status_code == 502
            assert said in answer.json["error"]


@pytest.mark.parametrize("text", ["eta", "eta=", "eta=127.0.0.1", "=127.0.0.1:1", "eta=127.0.0.1:1,zones"])
def test_upstreams_are_named_with_their_ports(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFERS_UPSTREAMS", text)
    with pytest.raises(ValueError, match=re.escape("expected eta=127.0.0.1:7001")):
        Upstreams.from_environment()


@pytest.mark.slow
def test_pricing_knows_nothing_of_greenlane() -> None:
    code = "import sys, offers.pricing.application as a; print(len(a.app.url_map._rules), 'greenlane' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, check=True
    )
    rules, known = done.stdout.split()
    # Every endpoint, two for health, and Flask's own for files.
    assert (int(rules), known) == (len(KNOWN.endpoints) + 3, "False")
