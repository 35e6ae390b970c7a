"""Deadlines under `greenlane serve`: what came too late is never begun, and who has left is not computed for."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.serve.served import Served, ask, until

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
workers = 1
at_once = 1
retry_after_s = 7
trusted_proxies = ["127.0.0.1"]
metrics_path = "/metrics"

[lanes.soon]
match = ["/soon*"]
headers = { x-who = "phone*" }
deadline_ms = 200
"""
BLOCKED = """
workers = 2
at_once = 2
trusted_proxies = ["127.0.0.1"]
lanes.soon = { match = ["/soon*"], deadline_ms = 200 }
"""
PHONE = {"X-Who": "phone"}
# Longer than every deadline here. A longer pause changes nothing.
TOO_LATE_S = 0.25


@pytest.fixture(scope="module", params=["held:app", "looped:app"])
def serve(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), request.param, SETTINGS) as served:
        yield served


@pytest.fixture(scope="module")
def two_loops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("two_loops"), "looped:app", BLOCKED) as served:
        yield served


@pytest.fixture
def served(serve: Served) -> Iterator[Served]:
    yield serve
    serve.finish()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/soon", PHONE),
        ("/soon", PHONE | {"grpc-timeout": "1H"}),
        ("/any", {"grpc-timeout": "200m"}),
        ("/any", {"X-Envoy-Expected-Rq-Timeout-Ms": "200"}),
    ],
    ids=["a lane's", "a lane's, the sooner one", "gRPC's", "Envoy's"],
)
def test_what_has_waited_too_long_is_refused_and_never_begun(
    served: Served, path: str, headers: dict[str, str]
) -> None:
    held, name = served.hold("/long"), f"late-{time.monotonic_ns()}"
    held.begun()
    with contextlib.closing(served.connection()) as late, contextlib.closing(served.connection()) as patient:
        late.request("GET", f"{path}/hold?{name}", headers=headers)
        served.waiting("shared", 1)
        patient.request("GET", "/x")
        served.waiting("shared", 2)
        if served.application == "looped:app":  # the front answers, whatever the loop does
            assert late.getresponse().read() == b"deadline exceeded\n"
            held.let_go()
        else:
            time.sleep(TOO_LATE_S)
            held.let_go()
            answer = late.getresponse()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "7")
            answer.read()
        assert patient.getresponse().read().startswith(str(served.workers()[0]).encode())
        assert ask(late, "/x")  # its connection is still good
    assert name not in served.order()


def test_of_a_client_that_nobody_trusts_neither_deadline_nor_clock_is_believed(tmp_path: Path) -> None:
    """Who could set one could have others' work refused as late, and cut short what it asks of the service."""
    settings = SETTINGS.replace('trusted_proxies = ["127.0.0.1"]\n', "")
    with Served(tmp_path, "held:app", settings) as served:
        headers = {"grpc-timeout": "200m", "X-Envoy-Expected-Rq-Timeout-Ms": "200"}
        assert served.get("/left", headers=headers) == "None"
        old = f"t={time.time_ns() // 1000 - 60_000_000}"
        assert served.get("/soon", headers=PHONE | {"X-Request-Start": old, "X-Queue-Start": old})
        assert status(served, "/soon/check?own", PHONE | {"grpc-timeout": "1m"}) == 504


def test_a_lane_without_its_header_has_no_deadline(served: Served) -> None:
    held = served.hold("/long")
    held.begun()
    with contextlib.closing(served.connection()) as connection:
        connection.request("GET", "/soon/x")
        served.waiting("shared", 1)
        time.sleep(TOO_LATE_S)
        held.let_go()
        assert connection.getresponse().status == 200


def test_a_client_that_has_left_is_told_at_the_next_checkpoint(served: Served) -> None:
    name = "left"
    with contextlib.closing(served.connection()) as connection:
        connection.request("GET", f"/check?{name}")
        until(lambda: (served.folder / f"{name}.begun").exists())
    until(lambda: (served.folder / f"{name}.cancelled").exists())
    assert served.get("/x")


def test_a_client_that_has_left_the_queue_is_never_served(served: Served) -> None:
    held = served.hold("/long")
    held.begun()
    for headers in ({}, {"grpc-timeout": "60S"}):
        with contextlib.closing(served.connection()) as connection:
            connection.request("GET", "/x/hold?gone", headers=headers)
            served.waiting("shared", 1)
        served.waiting("shared", 0)
    held.let_go()
    assert served.get("/x")
    assert "gone" not in served.order()


def test_an_upstream_is_told_what_is_left(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as upstream, ThreadPoolExecutor() as pool:
        asked = pool.submit(served.get, f"/call?{upstream.getsockname()[1]}", headers={"grpc-timeout": "60S"})
        called, _ = upstream.accept()
        with called:
            told = re.search(rb"(?i)x-envoy-expected-rq-timeout-ms: (\d+)", called.recv(65536))
            called.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        assert asked.result()
    assert told is not None
    assert 0 < int(told[1]) <= 60_000


def test_what_is_over_its_time_is_answered_and_told_at_the_next_checkpoint(served: Served) -> None:
    name = "over"
    assert status(served, f"/soon/check?{name}", PHONE) == 504
    until(lambda: (served.folder / f"{name}.ended").exists())


def test_while_a_loop_is_blocked_others_are_answered_in_time_and_new_ones_go_elsewhere(two_loops: Served) -> None:
    block = two_loops.hold("/stop")
    blocked = str(block.begun())
    with ThreadPoolExecutor() as pool:  # they fill what places are left, those of the blocked worker too
        late = [pool.submit(status, two_loops, f"/soon/hold?late-{number}", PHONE) for number in range(3)]
        assert {one.result() for one in late} == {504}
    two_loops.process.wait_output(rf"pid {blocked}\) blocks its loop")
    assert blocked not in {two_loops.get("/x").split()[0] for _ in range(10)}
    for number in range(3):
        (two_loops.folder / f"late-{number}.let_go").touch()
    block.let_go()
    until(lambda: two_loops.get("/x").split()[0] == blocked)


def test_every_worker_has_its_page_also_while_its_loop_is_blocked(served: Served) -> None:
    held = served.hold("/stop")
    pid = held.begun()
    until(lambda: re.search(rf'greenlane_heavy_phases_running\{{worker="\d+",pid="{pid}"', served.get("/metrics")))


def test_a_wait_before_a_trusted_front_counts_and_one_that_cannot_be_does_not(two_loops: Served) -> None:
    """The forms that fronts write, each a second ago: too late for 500 ms, in time for a minute."""
    us = time.time_ns() // 1000 - 1_000_000
    for start in (f"t={us}", f"{us // 1000}", f"t={us // 1_000_000}.{us // 1000 % 1000:03}"):
        told = {"X-Request-Start": start, "grpc-timeout": "500m"}
        assert status(two_loops, "/x", told) in (503, 504)
        assert status(two_loops, "/x", told | {"grpc-timeout": "1M"}) == 200
    for start in (f"t={us + 3600_000_000}", f"t={us - 3600_000_000}", "t=1", "soon"):
        assert status(two_loops, "/x", {"X-Request-Start": start, "grpc-timeout": "9S"}) == 200


def test_an_upload_that_is_refused_costs_its_connection_only(served: Served) -> None:
    held = served.hold("/long")
    held.begun()
    with contextlib.closing(served.connection()) as late:
        late.request("POST", "/x", body=b"x" * 100_000, headers={"grpc-timeout": "200m"})
        served.waiting("shared", 1)
        time.sleep(TOO_LATE_S)
        held.let_go()
        assert late.getresponse().status == (504 if served.application == "looped:app" else 503)
    assert served.get("/x")


def test_the_time_in_the_queue_counts_for_what_is_left(served: Served) -> None:
    if served.application == "looped:app":
        pytest.skip("says nothing of it")
    held = served.hold("/long")
    held.begun()
    with contextlib.closing(served.connection()) as connection:
        connection.request("GET", "/left", headers={"grpc-timeout": "60S"})
        served.waiting("shared", 1)
        time.sleep(TOO_LATE_S)
        held.let_go()
        left_ms = int(connection.getresponse().read())
    assert 0 < left_ms <= 60_000 - TOO_LATE_S * 1000
    assert served.get("/left") == "None"
    try:
        assert status(served, "/soon/hold?never", PHONE) == 504  # while it goes on
    finally:
        (served.folder / "never.let_go").touch()


def status(served: Served, path: str, headers: dict[str, str]) -> int:
    with contextlib.closing(served.connection()) as connection:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
