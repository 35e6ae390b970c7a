"""What clients may count on, through `greenlane serve` alone and through each real program with our file before it.

Of two servers behind each front one is not there.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.serve.fronts import running
from tests.serve.served import Served, until

from greenlane.settings import load
from greenlane_serve.export.fleet import fleet_of
from greenlane_serve.settings import ServeSettings
from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
workers = 1
at_once = 8
trusted_proxies = ["127.0.0.1", "127.1.2.4"]
health_path = "/healthz"
head_max_bytes = 70_000
"""
# The first front trusts the one, the servers trust the front too.
TRUSTED, STRANGER = "127.1.2.4", "127.1.2.3"
# What a client may claim to be, or to want.
SPOOFED = {
    "X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil", "X-Forwarded-Port": "1",
    "X-Forwarded-Prefix": "/evil", "Forwarded": "for=6.6.6.6", "X-Real-IP": "6.6.6.6", "True-Client-IP": "6.6.6.6",
    "CF-Connecting-IP": "6.6.6.6", "X-Original-URL": "/evil", "X-Greenlane-Lane": "evil", "X_Forwarded_For": "6.6.6.6",
    "grpc-timeout": "1m", "x-envoy-expected-rq-timeout-ms": "1", "X-Request-Start": "t=1000000000000",
}  # fmt: skip


@dataclass
class Front:
    name: str
    folder: Path
    port: int

    def connection(self, source: str = STRANGER) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20, source_address=(source, 0))

    def seen(self, headers: Mapping[str, str], source: str = STRANGER) -> dict[str, Any]:
        """What the application sees of a request with these headers."""
        with contextlib.closing(self.connection(source)) as connection:
            connection.request("GET", "/", headers=dict(headers))
            answer = connection.getresponse()
            text = answer.read()
        assert answer.status == 200, (answer.status, text[:200])
        return dict(json.loads(text))


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("behind"), "behaves:app", SETTINGS, "--kind", "asgi") as served:
        yield served


@pytest.fixture(scope="module", params=["serve", "haproxy", "nginx", "envoy"])
def front(request: pytest.FixtureRequest, behind: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    if request.param == "serve":
        yield Front("serve", behind.folder, behind.port)
        return
    settings = load(file=behind.folder / "greenlane.toml", environ={}, kind=ServeSettings)
    fleet = fleet_of(settings, [f"127.0.0.1:{behind.port}", f"127.0.0.1:{child.free_port()}"])
    with running(request.param, fleet, tmp_path_factory.mktemp(request.param)) as port:
        found = Front(request.param, behind.folder, port)
        until(lambda: answers(found))
        yield found


def answers(front: Front) -> bool:
    try:
        return bool(front.seen({}))
    except (AssertionError, OSError):
        return False


def test_a_server_that_is_not_there_costs_no_request(front: Front) -> None:
    for _ in range(20):
        assert front.seen({})


@pytest.mark.parametrize(
    ("events", "pause_s"), [(20, 0.0), pytest.param(3, 65.0, marks=[pytest.mark.soak, pytest.mark.timeout(300)])]
)
def test_each_event_of_a_stream_arrives_before_the_next_is_sent(front: Front, events: int, pause_s: float) -> None:
    """Also where more time is between two than proxies commonly wait for anything (60 s)."""
    for number in range(events):
        (front.folder / f"event-{number}").unlink(missing_ok=True)
    with contextlib.closing(front.connection()) as connection:
        connection.timeout = pause_s + 20
        connection.request("GET", f"/stream?{events}")
        answer = connection.getresponse()
        for number in range(events):
            assert answer.readline() == b"data: %d\n" % number
            answer.readline()
            time.sleep(pause_s if number + 1 < events else 0)
            (front.folder / f"event-{number}").touch()
        assert answer.read() == b""


def test_a_websocket_is_one_and_other_upgrades_are_requests(front: Front) -> None:
    with upgraded(front, "websocket") as sock:
        assert sock.recv(4096).startswith(b"HTTP/1.1 101 ")
        for word in (b"one", b"two"):
            mask = b"\1\2\3\4"
            masked = bytes(octet ^ mask[at % 4] for at, octet in enumerate(word))
            sock.sendall(bytes([0x81, 0x80 | len(word)]) + mask + masked)
            assert sock.recv(4096) == bytes([0x81, len(word)]) + word
    with upgraded(front, "h2c") as sock:
        status = sock.recv(4096)[:12]
        assert status in (b"HTTP/1.1 200", b"HTTP/1.1 403"), status  # Envoy refuses it


def upgraded(front: Front, protocol: str) -> socket.socket:
    """A connection on which an upgrade has been asked for."""
    key = base64.b64encode(b"0" * 16).decode()
    sock = socket.create_connection(("127.0.0.1", front.port), timeout=20, source_address=(STRANGER, 0))
    sock.sendall(
        f"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    return sock


def test_a_head_as_large_as_the_settings_allow_arrives(front: Front) -> None:
    assert len(front.seen({"X-Big": "a" * 64_000})["headers"]["x-big"]) == 64_000


def test_trailers_are_no_headers_and_the_body_is_whole(front: Front) -> None:
    with socket.create_connection(("127.0.0.1", front.port), timeout=20, source_address=(STRANGER, 0)) as sock:
        sock.sendall(
            b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n"
            b"5\r\nhello\r\n0\r\nX-Late: 1\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n"
        )
        text = b""
        while came := sock.recv(65536):
            text += came
    seen = json.loads(text[text.index(b"{") : text.rindex(b"}") + 1])
    assert (seen["body"], seen["client"]) == ("hello", STRANGER)
    assert "x-late" not in seen["headers"]


def test_what_a_client_says_of_itself_is_not_believed(front: Front) -> None:
    seen = front.seen(SPOOFED)
    assert (seen["client"], seen["scheme"], seen["left_ms"]) == (STRANGER, "http", None)
    said = {name.lower(): value for name, value in SPOOFED.items()}
    kept = {name for name, value in seen["headers"].items() if said.get(name) == value}
    assert kept == set()


@pytest.mark.gate
def test_a_trusted_proxy_is_believed(front: Front) -> None:
    """Envoy takes scheme and deadlines from nobody."""
    headers = {"X-Forwarded-For": "6.6.6.6, 9.8.7.6", "X-Forwarded-Proto": "https", "grpc-timeout": "60S"}
    seen = front.seen(headers, source=TRUSTED)
    assert seen["client"] == "9.8.7.6"
    if front.name != "envoy":
        assert seen["scheme"] == "https"
        assert 0 < seen["left_ms"] <= 60_000
