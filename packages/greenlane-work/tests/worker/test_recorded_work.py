"""`greenlane celery` under `greenlane record`, its permits, and the one budget of time: on a real RabbitMQ."""

from __future__ import annotations

import http.server
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.record.command import recorded
from tests.worker.site import Site, eventually, told

from greenlane.control.client import ask, processes
from greenlane.probes import enqueued
from greenlane_work.order import DEADLINE, RETURNS
from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

MS = 1_000_000
ANSWER_MS = 60
LEFT = "x-envoy-expected-rq-timeout-ms"


@pytest.fixture
def site(tmp_path: Path, rabbitmq_url: str, start_process: StartProcess) -> Site:
    return Site(tmp_path, rabbitmq_url, start_process)


class Merchant(http.server.BaseHTTPRequestHandler):
    """Says after a while what time it was given."""

    def do_GET(self) -> None:
        threading.Event().wait(ANSWER_MS / 1e3)
        body = (self.headers[LEFT] or "none").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def merchant() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Merchant) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("mode", ["--threads", "--green"])
def test_orders_are_jobs_and_say_what_kept_them_parked(site: Site, mode: str, merchant: str) -> None:
    rules = ("--task-limit", "2", "--task-slots", "10", "--task-shutdown-s", "20", "--task-retries", "1")
    site.publish("send", *[f"s{number}" for number in range(6)], merchant="slow", seconds=0.5)
    site.publish("compute", "early", headers=dict(enqueued.headers()))
    time.sleep(0.2)
    worker = site.worker(mode, *rules, recorded="r.glr")
    site.publish("call", "c", url=f"http://{merchant}/orders", merchant="other")
    site.publish("flaky", "f", failures=1, merchant="third")
    eventually(lambda: {*[f"s{number}" for number in range(6)], "c", "f", "early"} <= site.ended())
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit(timeout_s=40) == 0
    recording = recorded(site.folder)
    shop = "tests.worker.shop."
    found = {"send": 6, "call": 1, "flaky": 2, "compute": 1}
    assert Counter(job.route.removeprefix(shop) for job in recording.jobs) == found
    assert {job.host for job in recording.jobs} == {"greenlane.work"}
    # One message says when it was published; the others count from the receive.
    (early,) = (job for job in recording.jobs if job.clock == "enqueue")
    assert early.route == f"{shop}compute"
    assert early.wait_ns["accept"] >= 200 * MS
    assert {job.clock for job in recording.jobs} == {"enqueue", "accept"}
    for job in recording.jobs:
        parts = job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns
        assert parts == job.latency_ns
    by_route = {job.route.removeprefix(shop): job for job in recording.jobs}
    # Two run; the others wait for them.
    assert sum("limit slow" in dict(job.culprits) for job in recording.jobs) == 4
    (limited,) = [row for row in recording.blame if row.culprit == "limit slow"]
    assert (limited.victim, limited.kind) == (f"{shop}send", "parked")
    assert limited.ns > 4 * 400 * MS
    assert by_route["call"].io_ns["socket"] >= ANSWER_MS * MS
    assert [(call.route, call.outcome) for call in recording.calls if call.upstream == merchant] == [
        (f"{shop}call", "ok")
    ]
    first, second = (job for job in recording.jobs if job.route == f"{shop}flaky")
    assert (first.status, second.status) == (1, 0)
    assert second.arrival_ns >= first.end_ns  # a later attempt counts from when it was due


def test_a_copy_that_goes_back_to_the_queue_keeps_the_time_of_its_publication() -> None:
    first = enqueued.headers()
    assert enqueued.published({**first, RETURNS: 1}) == {**first, RETURNS: 1}
    assert enqueued.published({**first, enqueued.RECEIVED: True})[enqueued.AT] > first[enqueued.AT]
    assert enqueued.RECEIVED not in enqueued.published({**first, enqueued.RECEIVED: True})


@pytest.mark.gate
def test_heavy_tasks_take_turns_and_the_mode_is_switched_live(site: Site) -> None:
    control = site.folder / "control"
    site.worker("--mode", "on", "--task-slots", "8", "--control-dir", str(control))

    def turns(prefix: str) -> int:
        orders = [f"{prefix}{number}" for number in range(24)]
        site.publish("compute", *orders, ms=15)
        eventually(lambda: set(orders) <= site.ended())
        (process,) = processes(control)
        shown = ask(process.socket, {"do": "show"})
        assert shown["mode"] == mode
        # At once, or after a wait: beside orders of which nothing is known yet, all may have to wait.
        return int(shown["counters"]["granted"] + shown["counters"]["waited_granted"])

    mode = "on"
    with_permits = turns("on")
    assert with_permits > 0
    (process,) = processes(control)
    mode = ask(process.socket, {"do": "mode", "mode": "off"})["mode"]
    assert turns("off") == with_permits
    mode = ask(process.socket, {"do": "mode", "mode": "on"})["mode"]
    assert turns("again") > with_permits


@pytest.mark.parametrize("mode", ["--threads", pytest.param("--green", marks=pytest.mark.soak)])
def test_one_budget_of_time_holds_for_all_attempts(site: Site, mode: str, merchant: str) -> None:
    limits = ("--task-limit", "1", "--task-grace-s", "0.2", "--task-retries", "999", "--task-soft-limit-s", "20")
    worker = site.worker(mode, *limits)

    def publish(task: str, order: str, within_s: float, **arguments: object) -> None:
        site.publish(task, order, headers={DEADLINE: time.time() + within_s}, **arguments)

    publish("call", "c", 100, url=f"http://{merchant}/", merchant="a")
    publish("call", "d", 10, url=f"http://{merchant}/", merchant="a")
    site.publish("send", "before", merchant="b", seconds=1.5)
    publish("send", "parked", 0.7, merchant="b")
    publish("flaky", "fails", 1.5, failures=10_000, merchant="c")
    publish("hang", "hangs", 1, seconds=4, merchant="d")
    worker.wait_output("(?s)(goes to the dead letters .deadline.*){3}", timeout_s=30)
    eventually(lambda: {"c", "d", "before"} <= site.ended())
    assert [told(headers)["reason"] for _, headers in site.dead()] == ["deadline"] * 3
    written = site.written()
    assert (written["begin parked"], written["begin hangs"]) == (0, 1)
    assert 2 <= written["begin fails"] < 1000
    ends = {line.split()[1]: line.split()[2:] for line in site.book.read_text().splitlines() if line.startswith("end ")}
    # The attempt's own limit, then the order's deadline: what a task reads is what its upstream is told.
    for order, most_ms in (("c", 20_000), ("d", 10_000)):
        header, left_ms = (int(word) for word in ends[order])
        assert 0 < header <= left_ms <= most_ms
