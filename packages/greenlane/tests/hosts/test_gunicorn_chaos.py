"""Clients that do everything wrong leave nothing behind: no connection, no request in progress, no permit, no trace."""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import struct
import time

import pytest
from tests.hosts.gunicorn_server import InBackground, Server, read_all

pytestmark = pytest.mark.system

DEADLINE = b"X-Envoy-Expected-Rq-Timeout-Ms: %d\r\n"
CLIENTS = 6
ACTS = 60


def act(server: Server, chance: random.Random) -> None:
    """One connection: some requests, cut anywhere, left in any way."""
    requests = b"".join(some_request(chance) for _ in range(chance.choice((1, 1, 2, 5))))
    if chance.random() < 0.4:
        requests = requests[: chance.randrange(len(requests) + 1)]
    with server.connect() as sock, contextlib.suppress(ConnectionResetError, BrokenPipeError, TimeoutError):
        while requests:
            size = chance.choice((1, 7, 100, 5000, len(requests)))
            sock.sendall(requests[:size])
            requests = requests[size:]
        match chance.randrange(4):
            case 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case 1:
                sock.shutdown(socket.SHUT_WR)
                read_all(sock)
            case 2:
                sock.recv(100)


def some_request(chance: random.Random) -> bytes:
    deadline = DEADLINE % chance.choice((1, 3, 10, 1000)) if chance.random() < 0.4 else b""
    close = b"Connection: close\r\n" if chance.random() < 0.3 else b""
    match chance.randrange(6):
        case 0:
            return b"GET / HTTP/1.1\r\nHost: x\r\n%s%s\r\n" % (deadline, close)
        case 1:
            return b"GET /spin?0.003 HTTP/1.1\r\nHost: x\r\n%s%s\r\n" % (deadline, close)
        case 2:
            size = chance.choice((0, 10, 70_000))
            return b"POST /length HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" % (deadline, size) + bytes(size)
        case 3:
            return (
                b"POST /unread HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" % close
            )
        case 4:
            return b"GET /stream HTTP/1.1\r\nHost: x\r\n%s%s\r\n" % (deadline, close)
        case _:
            return b"GET /raises?value HTTP/1.1\r\nHost: x\r\n%s\r\n" % deadline


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("seed", [1, 2])
def test_chaotic_clients_leave_nothing_behind(gunicorn, seed: int) -> None:
    server = gunicorn(
        "--threads", "8", "--keep-alive", "1", limit=6, head_timeout_s=0.5, body_timeout_s=0.5, metrics_path="/metrics"
    )
    pid = int(server.get("/pid").text)
    before = descriptors(pid)

    def client(number: int) -> None:
        chance = random.Random(seed * 100 + number)
        for _ in range(ACTS):
            act(server, chance)

    for running in [InBackground(lambda number=number: client(number)) for number in range(CLIENTS)]:
        running.result(50)
    patience = time.monotonic() + 15
    while descriptors(pid) > before and time.monotonic() < patience:
        server.get("/metrics")
    assert descriptors(pid) <= before
    assert int(server.get("/pid").text) == pid
    metrics = server.get("/metrics").text
    assert re.search(r"greenlane_heavy_phases_running\S* 0$", metrics, re.MULTILINE)
    assert "connection dropped" not in server.process.output
    assert "told once" not in server.process.output
    held = server.held("gate", 6)  # the whole limit is free
    server.release("gate")
    assert [request.result().status for request in held] == [200] * 6
