"""Answers that are not as long as they declare: the client is told, and no place of a worker is held."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tests.serve.served import Served
from tests.serve.wire import KINDS

connection = pytest.importorskip("h2.connection", reason="pip install h2")
config = pytest.importorskip("h2.config")
events = pytest.importorskip("h2.events")
exceptions = pytest.importorskip("h2.exceptions")

pytestmark = [pytest.mark.system, pytest.mark.slow]

# More than the places of the one worker: a place that stays held shows.
REQUESTS = 5


@pytest.fixture(scope="module", params=KINDS)
def declares(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    kind = request.param
    settings = "workers = 1\nat_once = 2\nhttp2 = true\n"
    with Served(tmp_path_factory.mktemp("declares"), f"declares:{kind}", settings, "--kind", kind) as served:
        yield served


def test_a_shorter_answer_ends_the_client_s_connection(declares: Served) -> None:
    for _ in range(REQUESTS):
        answer = exchange(declares, "/?1000")
        assert b"\r\n\r\n" not in answer or answer.partition(b"\r\n\r\n")[2] in (b"0123456789", b"01234", b"")
    assert declares.get("/") == "0123456789"


def test_a_longer_answer_never_gets_past_its_length(declares: Served) -> None:
    """gunicorn cuts it; uvicorn gives it up. Neither adds to the next answer."""
    for _ in range(REQUESTS):
        assert exchange(declares, "/?7").partition(b"\r\n\r\n")[2] in (b"0123456", b"01234", b"")
    assert declares.get("/") == "0123456789"


def test_a_shorter_answer_ends_its_http2_stream(declares: Served) -> None:
    """HAProxy resets it, or ends it short of its length (2.6), which every client has to refuse."""
    for _ in range(REQUESTS):
        assert ending(declares, "/?1000") in ("reset", "short")
    assert ending(declares, "/") == "whole"


def exchange(served: Served, target: str) -> bytes:
    """One request on a connection that is to be kept; what comes until the server ends it, or its answer is whole."""
    received = b""
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as sock:
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        while not received.endswith(b"\r\n\r\n0123456") and (came := sock.recv(65536)):
            received += came
    return received


def ending(served: Served, target: str) -> str:
    """How the stream of a request ends."""
    client = connection.H2Connection(config.H2Configuration(client_side=True, header_encoding="utf-8"))
    client.initiate_connection()
    head = [(":method", "GET"), (":path", target), (":scheme", "http"), (":authority", "a")]
    client.send_headers(1, head, end_stream=True)
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as sock:
        while True:
            sock.sendall(client.data_to_send())
            came = sock.recv(65536)
            assert came, "the connection has been closed"
            try:
                for event in client.receive_data(came):
                    if isinstance(event, events.StreamReset | events.StreamEnded):
                        return "whole" if isinstance(event, events.StreamEnded) else "reset"
            except exceptions.InvalidBodyLengthError:
                return "short"
