"""TLS: what is served over a plain socket is served over TLS."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hosts.gunicorn_server import InBackground, Server, read_all, read_answer

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate: apt-get install openssl"),
]

REQUEST = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
DEADLINE = "X-Envoy-Expected-Rq-Timeout-Ms"


@pytest.fixture
def tls(gunicorn, tmp_path: Path) -> Callable[..., Server]:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    make += ["-subj", "/CN=localhost", "-keyout", key, "-out", certificate]
    subprocess.run(make, check=True, capture_output=True)

    def start(*arguments: str, protocols: tuple[str, ...] = ("http/1.1",), **settings: object) -> Server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(certificate)
        context.set_alpn_protocols(list(protocols))
        files = ["--keyfile", str(key), "--certfile", str(certificate)]
        return gunicorn(*files, *arguments, wrap=lambda sock: context.wrap_socket(sock), **settings)

    return start


@pytest.mark.gate
def test_a_connection_is_kept_over_tls(tls) -> None:
    server = tls()
    with server.connect() as sock:
        for _ in range(3):
            sock.sendall(REQUEST % b"/environ")
            answer = read_answer(sock)
            assert answer.status == 200 and "'wsgi.url_scheme': 'https'" in answer.text


def test_a_body_is_read_over_tls(tls) -> None:
    server = tls()
    with server.connect() as sock:
        for size in (10, 3_000_000, 70_000):
            sock.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
            assert read_answer(sock).text == str(size)


def test_pipelined_requests_are_answered_over_tls(tls) -> None:
    server = tls()
    with server.connect() as sock:
        sock.sendall(REQUEST % b"/" * 7 + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_all(sock).count(b"200 OK") == 8


def test_a_file_is_sent_over_tls(tls, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * 8000)
    assert tls().get(f"/file?{path}").body == path.read_bytes()


def test_the_answer_to_a_late_request_leaves_on_time_over_tls(tls) -> None:
    server = tls()
    assert server.get(f"/hold?{server.folder / 'gate'}", headers={DEADLINE: "60"}).status == 504
    server.release("gate")
    server.process.wait_output("left")
    assert "Traceback" not in server.process.output


def test_health_limit_and_slow_clients_over_tls(tls) -> None:
    server = tls("--threads", "3", health_path="/healthz", limit=1, head_timeout_s=0.5)
    held = server.held("gate", 1)
    assert server.get("/healthz").body == b"ok\n"
    assert server.get().status == 503
    server.release("gate")
    assert held[0].result().status == 200
    with server.connect() as sock:
        sock.sendall(b"GET / HT")
        assert read_all(sock).startswith(b"HTTP/1.1 408 ")


def test_slow_handshakes_and_heads_hold_no_thread(tls) -> None:
    server = tls("--threads", "2")
    with contextlib.ExitStack() as clients:
        for _ in range(10):
            clients.enter_context(server.connect()).sendall(b"GET / HTTP/1.1\r\n")
            plain = clients.enter_context(socket.create_connection(server.address))
            plain.sendall(b"\x16\x03\x01\x02\x00")
        assert server.get().status == 200


def test_plain_http_on_a_tls_port_ends_in_order(tls) -> None:
    server = tls()
    with socket.create_connection(server.address, timeout=20) as sock:
        sock.sendall(REQUEST % b"/")
        with contextlib.suppress(ConnectionResetError):
            read_all(sock)
    assert server.get().status == 200


def test_many_clients_over_tls(tls) -> None:
    server = tls("--threads", "8")

    def ask() -> list[int]:
        statuses = []
        with server.connect() as sock:
            for _ in range(20):
                sock.sendall(REQUEST % b"/")
                statuses.append(read_answer(sock).status)
        return statuses

    assert [client.result() for client in [InBackground(ask) for _ in range(8)]] == [[200] * 20] * 8
