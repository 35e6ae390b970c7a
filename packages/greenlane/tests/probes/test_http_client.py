"""Upstream requests carry the time that is left, and are phase ends, whichever client sends them."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.probes.observer import Observer

from greenlane import deadline
from greenlane.phase import Kind
from greenlane.probes import deadline_out

HEADER = "x-envoy-expected-rq-timeout-ms"


class Upstream(http.server.ThreadingHTTPServer):
    """Keeps the headers of the last request."""

    daemon_threads = True
    last: http.client.HTTPMessage


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def do_GET(self) -> None:
        self.server.last = self.headers
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def by_http_client(port: int, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/", headers=headers)
    assert connection.getresponse().read() == b"ok"
    connection.close()


def by_urllib3(port: int, headers: dict[str, str]) -> None:
    urllib3 = pytest.importorskip("urllib3")
    with urllib3.PoolManager() as pool:
        assert pool.request("GET", f"http://127.0.0.1:{port}/", headers=headers).data == b"ok"


def by_requests(port: int, headers: dict[str, str]) -> None:
    requests = pytest.importorskip("requests")
    with requests.Session() as session:
        assert session.get(f"http://127.0.0.1:{port}/", headers=headers).text == "ok"


def by_httpx(port: int, headers: dict[str, str]) -> None:
    httpx = pytest.importorskip("httpx")
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"http://127.0.0.1:{port}/", headers=headers).text == "ok"


Client = Callable[[int, dict[str, str]], None]
CLIENTS: list[Client] = [by_http_client, by_urllib3, by_requests, by_httpx]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_remaining_time_goes_along(client: Client, seen: Observer, upstream: Upstream) -> None:
    port = upstream.server_address[1]
    deadline_out.install()
    seen.deadline_ms = 480
    client(port, {})
    assert upstream.last.get_all(HEADER) == ["480"]
    client(port, {HEADER.title(): "77"})
    assert upstream.last.get_all(HEADER) == ["77"], "the caller's own"
    seen.deadline_ms = 0
    client(port, {})
    assert upstream.last.get_all(HEADER) == ["1"], "0 would mean: no limit"
    seen.deadline_ms = None
    client(port, {})
    assert upstream.last.get_all(HEADER) is None
    deadline_out.uninstall()
    seen.deadline_ms = 9
    client(port, {})
    assert upstream.last.get_all(HEADER) is None


@pytest.mark.parametrize("client", CLIENTS)
def test_its_waits_are_seen(client: Client, seen: Observer, upstream: Upstream) -> None:
    ends = seen.during(client, upstream.server_address[1], {})
    # Connect, send, and at least one receive.
    assert ends.count(Kind.SOCKET) >= 3
    assert not {Kind.SSL, Kind.DRIVER, Kind.PROCESS} & set(ends)


def test_misuse_is_still_http_clients_own_error(seen: Observer) -> None:
    deadline_out.install()
    seen.deadline_ms = 5
    with pytest.raises(http.client.CannotSendHeader):
        http.client.HTTPConnection("127.0.0.1").endheaders()


def test_redis_waits_on_python_sockets(seen: Observer) -> None:
    redis = pytest.importorskip("redis")

    def serve(listener: socket.socket) -> None:
        connection = listener.accept()[0]
        with connection:
            while received := connection.recv(4096):
                connection.sendall(b"+PONG\r\n" if b"PING" in received else b"+OK\r\n" * received.count(b"*"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        client = redis.Redis(port=listener.getsockname()[1], protocol=2)
        client.ping()
        ends = seen.during(client.ping)
        assert ends and set(ends) <= {Kind.SOCKET, Kind.SELECT}
        client.close()
        thread.join()


def by_httpx_on_a_loop(port: int, headers: dict[str, str]) -> None:
    httpx = pytest.importorskip("httpx")

    async def ask() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            with deadline.within_ms(500):
                assert (await client.get(f"http://127.0.0.1:{port}/", headers=headers)).text == "ok"

    asyncio.run(ask())


def by_aiohttp(port: int, headers: dict[str, str]) -> None:
    aiohttp = pytest.importorskip("aiohttp")

    async def ask() -> None:
        async with aiohttp.ClientSession() as session:
            with deadline.within_ms(500):
                async with session.get(f"http://127.0.0.1:{port}/", headers=headers) as answer:
                    assert await answer.text() == "ok"

    asyncio.run(ask())


@pytest.mark.parametrize("client", [by_httpx_on_a_loop, by_aiohttp])
def test_on_a_loop_the_time_of_the_context_goes_along(client: Client, seen: Observer, upstream: Upstream) -> None:
    port = upstream.server_address[1]
    deadline_out.install()
    client(port, {})
    assert 1 <= int(upstream.last[HEADER]) <= 500
    client(port, {HEADER.title(): "77"})
    assert upstream.last.get_all(HEADER) == ["77"], "the caller's own"
    seen.deadline_ms = 9
    client(port, {})
    assert 1 <= int(upstream.last[HEADER]) <= 9, "the sooner one"
    deadline_out.uninstall()
    client(port, {})
    assert upstream.last.get_all(HEADER) is None
