"""What a call says when it did not go well: nobody was reached, nobody knows, or the merchant does not want it."""

from __future__ import annotations

import contextlib
import http.server
import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest

from greenlane_tools.lab.processes import free_port
from pos.calls import CallError, Failed, Merchants, Refused, Unknown
from pos.surroundings import Surroundings

Answer = Callable[[str], Merchants]


@pytest.fixture
def merchant() -> Iterator[Answer]:
    """Gives callers of a merchant that reads a request and answers so; "" = it closes the connection."""
    servers: list[socketserver.ThreadingTCPServer] = []

    def answering(status_line: str) -> Merchants:
        class Counter(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.recv(65_536)
                if status_line:
                    self.request.sendall(f"HTTP/1.1 {status_line}\r\nContent-Length: 0\r\n\r\n".encode())

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Counter)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return at_port(server.server_address[1])

    yield answering
    for server in servers:
        server.shutdown()
        server.server_close()


def at_port(port: int) -> Merchants:
    return Merchants(Surroundings(broker="", merchants={"taco": f"http://127.0.0.1:{port}"}, call_s=5))


@pytest.mark.parametrize(
    ("status_line", "error"), [("500 No", Unknown), ("503 No", Unknown), ("404 No", Refused), ("", Unknown)]
)
def test_an_order_that_did_not_go_well(merchant: Answer, status_line: str, error: type[CallError]) -> None:
    with pytest.raises(error):
        merchant(status_line).place("taco", "o-1")


def test_an_order_that_went_well(merchant: Answer) -> None:
    merchant("201 Created").place("taco", "o-1")


def test_where_nobody_listens_nothing_was_carried_out() -> None:
    with pytest.raises(Failed):
        at_port(free_port()).place("taco", "o-1")


def test_a_merchant_that_does_not_answer_may_have_carried_it_out() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as silent:
        around = Surroundings(
            broker="", merchants={"taco": f"http://127.0.0.1:{silent.server_address[1]}"}, call_s=0.05
        )
        with pytest.raises(Unknown):
            Merchants(around).place("taco", "o-1")


@pytest.mark.parametrize(("status_line", "known"), [("200 OK", True), ("404 No", False), ("501 Not told", None)])
def test_a_merchant_is_asked(merchant: Answer, status_line: str, known: bool | None) -> None:
    assert merchant(status_line).has("taco", "o-1") is known


def test_a_merchant_that_cannot_say_is_asked_later(merchant: Answer) -> None:
    with pytest.raises(Unknown):
        merchant("500 No").has("taco", "o-1")


def of_three(port: int) -> Merchants:
    return Merchants(Surroundings(broker="", merchants={"taco": f"http://127.0.0.1:{port}"}, call_s=5, calls=3))


@pytest.mark.parametrize(
    ("fails", "error", "asked"),
    [
        ("", None, ["GET /menu?of=3", "POST /orders/o-1?of=3", "POST /orders/o-1/confirm?of=3"]),
        ("/menu", Failed, ["GET /menu?of=3"]),
        ("/orders/o-1?", Unknown, ["GET /menu?of=3", "POST /orders/o-1?of=3"]),
        ("/confirm", Unknown, ["GET /menu?of=3", "POST /orders/o-1?of=3", "POST /orders/o-1/confirm?of=3"]),
    ],
)
def test_an_order_of_three_calls_ends_at_the_first_that_fails(
    fails: str, error: type[CallError] | None, asked: list[str]
) -> None:
    seen: list[str] = []

    class Counter(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append(f"{self.command} {self.path}")
            self.send_response(500 if fails and fails in self.path else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counter) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(error) if error else contextlib.nullcontext():
            of_three(server.server_address[1]).place("taco", "o-1")
        server.shutdown()
    assert seen == asked
