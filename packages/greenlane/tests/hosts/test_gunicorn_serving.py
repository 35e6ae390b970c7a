"""gunicorn with our worker serves what gthread serves."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
from pathlib import Path

import pytest
from tests.hosts.gunicorn_server import InBackground, read_all, read_answer

pytestmark = pytest.mark.system


@pytest.mark.gate
def test_a_request_is_answered_and_its_connection_kept(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        for _ in range(3):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = read_answer(sock)
            assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"hello\n", "keep-alive")


def test_unset_threads_are_said_to_be_ours(gunicorn) -> None:
    server = gunicorn(threads=7)
    server.process.wait_output("greenlane: threads is not set: up to 7 per worker")


def test_threads_start_on_demand_up_to_the_ceiling_and_requests_beyond_it_wait(gunicorn) -> None:
    server = gunicorn("--threads", "3")
    assert server.get("/threads").text == "1"
    held = server.held("gate", 2)
    assert server.get("/threads").text == "3"
    held += server.held("gate", 1)
    late = InBackground(lambda: server.get("/"))
    server.release("gate")
    assert [request.result().status for request in [*held, late]] == [200] * 4
    assert server.get("/threads").text == "3"


@pytest.mark.gate
def test_pipelined_requests_are_answered_in_order(gunicorn) -> None:
    server = gunicorn()
    request = b"GET /%s HTTP/1.1\r\nHost: x\r\n%s\r\n"
    answers = server.send(request % (b"pid", b"") * 5 + request % (b"", b"Connection: close\r\n"))
    assert answers.count(b"HTTP/1.1 200 OK") == 6
    assert answers.endswith(b"hello\n")


def test_a_pipelined_head_that_comes_in_two_pieces_is_served(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /pid HT")
        assert read_answer(sock).body == b"hello\n"
        sock.sendall(b"TP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(sock).body.isdigit()


def test_a_chunked_body_is_read(gunicorn) -> None:
    server = gunicorn()
    body = b"".join(b"%x\r\n%s\r\n" % (size, b"a" * size) for size in (1, 5000, 70000)) + b"0\r\n\r\n"
    head = b"POST /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert server.send(head + body).endswith(b"\r\n\r\n75001")


def test_a_large_upload_is_read(gunicorn) -> None:
    server = gunicorn()
    size = 8_000_000
    head = b"POST /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size
    assert server.send(head + bytes(size)).endswith(b"\r\n\r\n8000000")


def test_a_body_that_the_application_leaves_unread_does_not_become_a_request(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        for _ in range(2):
            sock.sendall(b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 30000\r\n\r\n" + b"G" * 30000)
            assert read_answer(sock).body == b"not read\n"


def test_expect_100_continue_is_answered_before_the_body(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        sock.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"abc")
        assert read_answer(sock).body == b"3"


def test_head_has_no_body_and_keeps_the_connection(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        for _ in range(2):
            sock.sendall(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = read_answer(sock, "HEAD")
            assert (answer.body, answer.headers["content-length"]) == (b"", "6")


def test_http_1_0_is_closed_after_the_answer_unless_it_asks_to_be_kept(gunicorn) -> None:
    server = gunicorn()
    assert server.send(b"GET / HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nhello\n")
    with server.connect() as sock:
        sock.sendall(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert read_answer(sock).headers["connection"] == "keep-alive"


@pytest.mark.gate
def test_a_streamed_answer_is_chunked_and_whole(gunicorn) -> None:
    answer = gunicorn().get("/stream")
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.text == "".join(f"{number}," for number in range(100))


def test_a_file_is_sent(gunicorn, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(3_000_000))
    server = gunicorn()
    assert server.get(f"/file?{path}").body == path.read_bytes()
    assert server.get(f"/file?{path}", method="HEAD").body == b""


@pytest.mark.parametrize("head", ["", "Connection: close\r\n"])
def test_an_answer_shorter_than_declared_ends_its_connection(gunicorn, head: str) -> None:
    server = gunicorn("--threads", "1", "--keep-alive", "60")
    for _ in range(3):
        answer = server.send(f"GET /declares?1000 HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
        assert answer.partition(b"\r\n\r\n")[2] == b"0123456789"
    assert server.get().body == b"hello\n"
    assert server.process.output.count("shorter than its Content-Length") == 1


@pytest.mark.parametrize("size", [0, 600])
def test_a_file_shorter_than_declared_ends_its_connection(gunicorn, tmp_path: Path, size: int) -> None:
    (tmp_path / "short").write_bytes(b"s" * size)
    server = gunicorn("--threads", "1", "--keep-alive", "60")
    answer = server.send(f"GET /declares-file?{tmp_path / 'short'} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert answer.partition(b"\r\n\r\n")[2] == b"s" * size
    assert server.get().body == b"hello\n"


def test_an_answer_longer_than_declared_is_cut_and_its_connection_kept(gunicorn, tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"l" * 3000)
    server = gunicorn("--keep-alive", "60")
    with server.connect() as sock:
        for path, body in (
            ("/declares?4", b"0123"),
            (f"/declares-file?{tmp_path / 'long'}", b"l" * 1000),
            ("/", b"hello\n"),
        ):
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert read_answer(sock).body == body


@pytest.mark.parametrize("path", ["/declares?1000", "/declares?4"])
def test_a_head_request_s_length_is_not_owed(gunicorn, path: str) -> None:
    server = gunicorn("--keep-alive", "60")
    with server.connect() as sock:
        for _ in range(2):
            sock.sendall(f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert read_answer(sock, "HEAD").body == b""


def test_a_unix_socket_is_served(gunicorn, tmp_path: Path) -> None:
    server = gunicorn(bind=f"unix:{tmp_path / 'door'}")
    assert server.get().body == b"hello\n"
    assert server.get().body == b"hello\n"


@pytest.mark.parametrize("error", ["value", "exit", "os", "base"])
@pytest.mark.gate
def test_an_application_that_raises_gives_500_and_the_worker_lives(gunicorn, error: str) -> None:
    server = gunicorn()
    pid = server.get("/pid").text
    assert server.get(f"/raises?{error}").status == 500
    assert server.get("/pid").text == pid


@pytest.mark.parametrize("error", ["value", "exit"])
def test_an_answer_that_breaks_off_does_not_look_whole(gunicorn, error: str) -> None:
    server = gunicorn()
    pid = server.get("/pid").text
    answer = server.send(f"GET /raises-later?{error} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert answer.endswith(b"6\r\nbegun,\r\n")
    assert server.get("/pid").text == pid


def test_a_client_that_leaves_mid_answer_ends_the_application_s_iterable(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        sock.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        sock.recv(100_000)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leave with a reset
    server.process.wait_output("endless closed")
    assert server.get().status == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"BAD\r\n\r\n", 400),
        (b"GET /" + b"a" * 5000, 414),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: odd\r\n\r\n", 501),
    ],
)
def test_what_gunicorn_s_parser_refuses_is_refused_at_once(gunicorn, request_bytes: bytes, status: int) -> None:
    assert gunicorn().send(request_bytes).startswith(b"HTTP/1.1 %d " % status)


def test_a_proxy_header_is_honoured(gunicorn) -> None:
    server = gunicorn("--proxy-protocol", "auto")
    request = b"GET /environ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    first = server.send(b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 80\r\n" + request)
    assert b"'REMOTE_ADDR': '192.0.2.7'" in first
    second = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + socket.inet_aton("192.0.2.9") + bytes(4) + b"\x10\x00\x00\x50"
    with server.connect() as sock:
        for byte in (second[:14], second[14:20], second[20:], request[:9], request[9:]):
            sock.sendall(byte)
        assert b"'REMOTE_ADDR': '192.0.2.9'" in read_all(sock)


def test_the_uwsgi_protocol_is_served(gunicorn) -> None:
    server = gunicorn("--protocol", "uwsgi")
    pairs = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "QUERY_STRING": "", "SERVER_PROTOCOL": "HTTP/1.1"}
    block = b"".join(struct.pack("<H", len(text)) + text.encode() for pair in pairs.items() for text in pair)
    packet = b"\x00" + struct.pack("<H", len(block)) + b"\x00" + block
    with server.connect() as sock:
        sock.sendall(packet[:3])
        sock.sendall(packet[3:])
        assert read_answer(sock).body == b"hello\n"


def test_an_access_log_line_is_written(gunicorn) -> None:
    server = gunicorn("--access-logfile", "-")
    server.get("/pid")
    server.process.wait_output(r'"GET /pid HTTP/1\.1" 200 ')


def test_hooks_are_called(gunicorn) -> None:
    config = "def pre_request(worker, req): print('pre', req.path)\n"
    config += "def post_request(worker, req, environ, resp): print('post', resp.status)\n"
    server = gunicorn(config=config)
    server.get("/pid")
    server.process.wait_output("pre /pid")
    server.process.wait_output("post 200 OK")


def test_connections_over_worker_connections_wait_at_the_door(gunicorn) -> None:
    server = gunicorn("--worker-connections", "2")
    held = server.held("gate", 2)
    late = InBackground(lambda: server.get(f"/hold?{server.folder / 'gate'}"))
    server.release("gate")
    assert [request.result().status for request in [*held, late]] == [200] * 3
    order = [line.split()[0] for line in server.process.output.splitlines() if line.startswith(("entered", "left"))]
    assert order[:3] == ["entered", "entered", "left"]


def test_two_workers_share_a_burst_of_slow_requests(gunicorn) -> None:
    server = gunicorn("--workers", "2")
    server.process.wait_output("(Booting worker[^$]*){2}")
    while len({server.get("/pid").text for _ in range(8)}) < 2:  # both have loaded the application
        server.held("gate", 0)
    held = server.held("gate", 8)
    pids = re.findall(r"entered \S+ in (\d+)", server.process.output)
    server.release("gate")
    assert [request.result().status for request in held] == [200] * 8
    assert min(pids.count(pid) for pid in pids) >= 2 and len(set(pids)) == 2


def test_without_its_front_the_worker_serves_as_gthread_does(gunicorn) -> None:
    config = "def fail(): raise OSError('no poller')\n"
    config += "def post_worker_init(worker): worker._make_front = fail\n"
    server = gunicorn(config=config)
    server.process.wait_output("its front could not start; serving as gthread does")
    assert server.get().body == b"hello\n"
    assert server.send(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").endswith(b"hello\n")
    server.process.signal(signal.SIGTERM)
    assert server.process.wait_exit() == 0


def test_an_application_may_take_the_socket_and_close_it(gunicorn) -> None:
    server = gunicorn()
    for _ in range(20):
        with server.connect() as sock:
            sock.sendall(b"GET /takes-socket HTTP/1.1\r\nHost: x\r\nUpgrade: own\r\nConnection: upgrade\r\n\r\n")
            assert read_all(sock) == b"taken over"
    assert server.get().status == 200
    assert "connection dropped" not in server.process.output
