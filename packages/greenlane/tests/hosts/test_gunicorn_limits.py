"""What the worker answers without the application: refusals, deadlines, health, metrics, slow clients."""

from __future__ import annotations

import contextlib
import select
import socket

import pytest
from tests.hosts.gunicorn_server import InBackground, read_all, read_answer

pytestmark = pytest.mark.system

DEADLINE = "X-Envoy-Expected-Rq-Timeout-Ms"


def test_a_request_over_the_limit_is_refused_at_once_and_counts_no_longer_once_answered(gunicorn) -> None:
    server = gunicorn(limit=2, retry_after_s=7)
    held = server.held("gate", 2)
    refused = server.get()
    assert (refused.status, refused.headers["retry-after"], refused.headers["connection"]) == (503, "7", "close")
    server.release("gate")
    assert [request.result().status for request in held] == [200, 200]
    assert server.get().status == 200


def test_idle_connections_do_not_count_against_the_limit(gunicorn) -> None:
    server = gunicorn(limit=1)
    with contextlib.ExitStack() as clients:
        for _ in range(5):
            sock = clients.enter_context(server.connect())
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_answer(sock).status == 200


def test_a_pipelined_request_does_not_count_its_predecessor(gunicorn) -> None:
    server = gunicorn(limit=1)
    request = b"GET / HTTP/1.1\r\nHost: x\r\n%s\r\n"
    assert server.send(request % b"" * 9 + request % b"Connection: close\r\n").count(b"200 OK") == 10


def test_a_refused_upload_reads_its_answer_before_any_reset(gunicorn) -> None:
    server = gunicorn(limit=1)
    held = server.held("gate", 1)
    size = 5_000_000
    answer = server.send(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
    assert answer.startswith(b"HTTP/1.1 503 ")
    server.release("gate")
    assert held[0].result().status == 200


def test_a_lane_s_limit_refuses_its_requests_only(gunicorn, tmp_path) -> None:
    (tmp_path / "greenlane.toml").write_text('[lanes.held]\nmatch = ["/hold*"]\nlimit = 1\n')
    server = gunicorn()
    held = server.held("gate", 1)
    assert server.get(f"/hold?{tmp_path / 'gate'}").status == 503
    assert server.get("/").status == 200
    server.release("gate")
    assert held[0].result().status == 200
    assert server.get(f"/hold?{tmp_path / 'gate'}").status == 200


def test_the_answer_to_a_late_request_leaves_before_its_work_ends(gunicorn) -> None:
    server = gunicorn("--access-logfile", "-")
    name = server.folder / "gate"
    with server.connect() as sock:
        sock.sendall(f"GET /hold?{name} HTTP/1.1\r\nHost: x\r\n{DEADLINE}: 60\r\n\r\n".encode())
        answer = read_all(sock)
    assert answer.startswith(b"HTTP/1.1 504 ") and answer.endswith(b"deadline exceeded\n")
    assert answer.count(b"HTTP/1.1") == 1
    assert f"left {name}" not in server.process.output
    server.release("gate")
    server.process.wait_output(f"left {name}")
    server.process.wait_output(r'"GET /hold\S* HTTP/1\.1" 504 ')
    assert "Traceback" not in server.process.output


def test_a_request_within_its_deadline_is_answered_by_the_application(gunicorn) -> None:
    server = gunicorn()
    assert server.get(headers={DEADLINE: "20000"}).body == b"hello\n"


def test_an_answer_that_has_begun_is_not_cut_at_its_deadline(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        sock.sendall(f"GET /started?{server.folder / 'gate'} HTTP/1.0\r\n{DEADLINE}: 30\r\n\r\n".encode())
        begun = sock.recv(65536)
        late = InBackground(lambda: server.get(f"/hold?{server.folder / 'other'}", headers={DEADLINE: "60"}))
        assert late.result().status == 504  # so the first one's deadline has passed too
        server.release("other")
        server.release("gate")
        assert (begun + read_all(sock)).endswith(b"begun,ended")


@pytest.mark.gate
def test_every_request_of_many_with_a_deadline_is_answered_exactly_once(gunicorn) -> None:
    server = gunicorn()
    requests = [
        InBackground(
            lambda ms=ms: server.send(
                f"GET /spin?0.02 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{DEADLINE}: {ms}\r\n\r\n".encode()
            )
        )
        for ms in range(1, 60)
    ]
    answers = [request.result(60) for request in requests]
    assert all(answer.count(b"HTTP/1.1 ") == 1 for answer in answers)
    assert {answer[9:12] for answer in answers} <= {b"200", b"504"}


def test_work_that_stops_at_a_checkpoint_after_its_deadline_leaves_no_trace(gunicorn) -> None:
    server = gunicorn("--threads", "2")
    for _ in range(5):
        assert server.get("/checkpoints", headers={DEADLINE: "20"}).status == 504
    assert "Traceback" not in server.process.output


def test_a_request_that_waits_for_a_thread_is_answered_at_its_deadline(gunicorn) -> None:
    server = gunicorn("--threads", "2")
    held = server.held("gate", 2)
    assert server.get(headers={DEADLINE: "50"}).status == 504
    server.release("gate")
    assert [request.result().status for request in held] == [200, 200]


def test_health_is_answered_while_every_thread_is_busy_and_tells_when_they_hang(gunicorn) -> None:
    server = gunicorn("--threads", "2", health_path="/healthz", hung_after_s=0.5)
    assert (server.get("/healthz").status, server.get("/healthz").body) == (200, b"ok\n")
    held = server.held("gate", 2)
    answer = server.get("/healthz")
    while not answer.text.startswith("hung: 2 requests run longer than 0.5 s"):
        assert answer.status == 200 or answer.text.startswith("hung: 1 ")
        answer = server.get("/healthz?probe")
    assert answer.status == 503
    assert server.get("/healthz", method="HEAD").body == b""
    server.release("gate")
    assert [request.result().status for request in held] == [200, 200]
    assert server.get("/healthz").status == 200
    assert server.get("/healthzz").body == b"hello\n"


@pytest.mark.gate
def test_metrics_are_given_at_their_path(gunicorn) -> None:
    server = gunicorn(metrics_path="/metrics")
    server.get()
    answer = server.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'greenlane_jobs_total{worker="1"' in answer.text


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        pytest.param([], b"", id="connection"),
        pytest.param([b"G"], b"408", id="line"),
        pytest.param([b"GET / HTTP/1.1\r\n", b"Host: x\r\n"], b"408", id="headers"),
        pytest.param([b"POST /length HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b"a"], b"408", id="body"),
        pytest.param([b"POST /length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\na"], b"408", id="chunk"),
    ],
)
def test_a_client_that_stops_sending_is_bounded(gunicorn, pieces: list[bytes], status: bytes) -> None:
    server = gunicorn(head_timeout_s=0.5, body_timeout_s=0.5)
    with server.connect() as sock:
        for piece in pieces:
            sock.sendall(piece)
        assert read_all(sock)[9:12] == status


def test_slow_heads_hold_no_thread(gunicorn) -> None:
    server = gunicorn("--threads", "2")
    with contextlib.ExitStack() as clients:
        for head in (b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n") * 10:
            sock = clients.enter_context(server.connect())
            sock.sendall(head)
        assert server.get("/threads").text == "1"
        sock.sendall(b"\r\n")
        assert read_answer(sock).body == b"hello\n"


def test_an_idle_connection_is_closed_after_keepalive(gunicorn) -> None:
    server = gunicorn("--keep-alive", "1")
    with server.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(sock).headers["connection"] == "keep-alive"
        assert sock.recv(10) == b""


def test_a_websocket_is_left_to_the_application(gunicorn) -> None:
    server = gunicorn(body_timeout_s=0.2)
    upgrade = f"GET /hold?{server.folder / 'gate'} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
    upgrade += f"Connection: upgrade\r\n{DEADLINE}: 50\r\n\r\n"
    with server.connect() as sock:
        sock.sendall(upgrade.encode())
        late = server.get(f"/hold?{server.folder / 'other'}", headers={DEADLINE: "100"})
        assert late.status == 504
        server.release("other")
        server.release("gate")
        assert read_answer(sock).body == b"held\n"


def test_a_light_request_gets_a_thread_while_heavy_ones_fill_all_others(gunicorn) -> None:
    """As they come, 32 of the 48 have to end before a thread is free for it."""
    server = gunicorn("--threads", "16", metrics_path="/metrics")
    heavy = b"GET /spin?0.03 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    def sent(number: int, clients: contextlib.ExitStack) -> list[socket.socket]:
        sockets = [clients.enter_context(server.connect(60)) for _ in range(number)]
        for sock in sockets:
            sock.sendall(heavy)
        return sockets

    with contextlib.ExitStack() as clients:  # what they are is learned
        for sock in sent(24, clients):
            assert read_all(sock).endswith(b"spun\n")
    with contextlib.ExitStack() as clients:
        waiting = sent(48, clients)
        assert server.get("/").body == b"hello\n"
        answered, _, _ = select.select(waiting, [], [], 0)
        assert len(answered) < 16
        assert all(read_all(sock).endswith(b"spun\n") for sock in waiting)
