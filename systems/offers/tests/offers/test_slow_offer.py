"""The case of one slow offer: what is read off a recording, and the relay that watches the wire."""

from __future__ import annotations

import http.server
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from greenlane_tools.lab.processes import StartFailed
from greenlane_tools.lab.relay import Relays
from offers import table
from offers.slow_offer import __main__ as command
from offers.slow_offer.case import Case, agreement, case_of, draw, rows_of
from offers.slow_offer.staged import HEAVY, MOST_HEAVY, OFFER, Plan
from offers.slow_offer.verdicts import verdicts_of
from offers.slow_offer.watched import Passed, Watched
from tests.recordings import pricing, slow_offer

MS = 1_000_000


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(0.02)
        body = b"x" * 100_000
        self.send_response(200)
        self.send_header("X-Upstream-Ms", "20.125")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *ignored: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


def test_the_relay_passes_all_and_says_when_each_call_went_past(upstream: int) -> None:
    began_ns = time.monotonic_ns()
    watched = Watched()
    with Relays() as relays:
        relay = relays.to(upstream, watched)
        for number in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{relay.port}/routing?id=slow-{number}&region=x") as answer:
                assert answer.read() == b"x" * 100_000
        # The last call is written down after its reply has been passed on.
        until = time.monotonic() + 10
        while len(watched.passed) < 3 and time.monotonic() < until:
            time.sleep(0.005)
    assert [(one.call_id, one.own_ms) for one in watched.passed] == [(f"slow-{n}", 20.125) for n in range(3)]
    times = [began_ns, *(at for one in watched.passed for at in (one.asked_ns, one.replied_ns)), time.monotonic_ns()]
    assert times == sorted(times)
    assert all(one.wire_ns >= 20 * MS for one in watched.passed)


@pytest.mark.slow
def test_the_case_has_every_clock_the_factor_and_the_culprit(tmp_path: Path) -> None:
    recording = tmp_path / "pricing.glr"
    recording.write_bytes(slow_offer())
    passed = [Passed("slow-2-3", 0, 70 * MS, 70.0), Passed("slow-1-3", 0, 110 * MS + 300_000, 110.0)]
    rows = rows_of(recording)
    case = case_of(rows, passed)
    assert (case.upstream_ms, case.wire_ms, case.relay_ms, case.application_ms) == (110.0, 111.0, 110.3, 5300.0)
    assert round(case.factor, 1) == 48.2
    assert case.trace == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert [(row["culprit"], row["place"]) for row in case.culprits] == [("GET /v1/receipts/month", "work.py:99")]
    assert agreement(rows) == (1, 1) and agreement(rows, 0.5) == (0, 1)
    draw(recording, case.route, tmp_path / "page.html")
    assert "routing:80" in (tmp_path / "page.html").read_text("utf-8")
    assert any("48×" in line for line in command._told(case))
    culprit, clocks, read = verdicts_of(case)
    assert (culprit.measured, clocks.measured, read.measured) == (1, 1.0, 5300.0)
    assert culprit.holds and clocks.holds and read.holds and read.remark == "48×"


def test_a_case_that_names_another_or_whose_clocks_differ_shows_nothing() -> None:
    other = [{"culprit": "os", "wait_ms": 900.0, "place": None}]
    case = Case("GET /v1/bikes/price", "GET /routing", None, 110.0, 113.0, None, 1_200.0, 10.9, 1_300.0, other)
    assert [verdict.holds for verdict in verdicts_of(case)] == [False, False, False]


@pytest.mark.slow
def test_a_recording_without_a_slow_offer_makes_no_case(tmp_path: Path) -> None:
    recording = tmp_path / "pricing.glr"
    recording.write_bytes(pricing(seconds=1))
    with pytest.raises(StartFailed, match="routing"):
        case_of(rows_of(recording))


def test_what_is_staged_holds_the_loop_for_longer_than_three_seconds_in_one_go() -> None:
    known = table.read()
    plan = Plan()
    assert plan.heavy * plan.heavy_ms >= 3_000 + 110 and plan.heavy <= MOST_HEAVY < 50
    # The heavy one begins to compute immediately, and the offer asks the watched upstream in the middle.
    assert known.endpoints[HEAVY].calls == () and "routing" in known.endpoints[OFFER].calls


def test_a_wrong_region_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--region", "atlantis"])
    assert ended.value.code == 2
    assert "hills" in capsys.readouterr().err
