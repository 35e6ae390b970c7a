"""HTTP clients' calls: one each, of the outermost client, with its outcome, deadline, and when the reply was there."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.probes.heard import Heard

from greenlane.probes.calls import clients
from tests import child
from tests.where import IMPORT_PATH

pytestmark = pytest.mark.measured

DELAY_S = 0.05
OK, ERROR, TIMEOUT = 0, 1, 2


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers by the first part of the path.

    /now/…; /late/… after DELAY_S; /drops/… five bytes, DELAY_S before each; /timed/… tells its own clock; /away
    redirects to /now/1.
    """

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        if kind == "away":
            self.send_response(302)
            self.send_header("Location", "/now/1")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if kind == "late":
            time.sleep(DELAY_S)
        body = b"bikes"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if kind == "timed":
            self.send_header("Server-Timing", 'db;desc="a, total;dur=9";dur=3.5, total;dur=110.25')
        self.end_headers()
        if kind == "drops":
            for byte in body:
                time.sleep(DELAY_S)
                self.wfile.write(bytes([byte]))
        else:
            self.wfile.write(body)

    def log_message(self, *ignored: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *ignored: object) -> None:
        """A client that gave up."""


@pytest.fixture
def port() -> Iterator[int]:
    with Server(("127.0.0.1", child.free_port()), Upstream) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


def with_requests(url: str, timeout_s: float) -> bytes:
    requests = pytest.importorskip("requests")
    with requests.Session() as session:
        session.trust_env = False
        content: bytes = session.get(url, timeout=timeout_s).content
        return content


def with_urllib3(url: str, timeout_s: float) -> bytes:
    urllib3 = pytest.importorskip("urllib3")
    with urllib3.PoolManager() as pool:
        content: bytes = pool.request("GET", url, timeout=timeout_s, retries=False).data
        return content


def with_urllib(url: str, timeout_s: float) -> bytes:
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:
        content: bytes = answer.read()
        return content


def with_httpx(url: str, timeout_s: float) -> bytes:
    httpx = pytest.importorskip("httpx")
    with httpx.Client(trust_env=False, follow_redirects=True) as client:
        content: bytes = client.get(url, timeout=timeout_s).content
        return content


def with_httpx_async(url: str, timeout_s: float) -> bytes:
    httpx = pytest.importorskip("httpx")

    async def get() -> bytes:
        async with httpx.AsyncClient(trust_env=False, follow_redirects=True) as client:
            content: bytes = (await client.get(url, timeout=timeout_s)).content
            return content

    return asyncio.run(get())


def with_aiohttp(url: str, timeout_s: float) -> bytes:
    aiohttp = pytest.importorskip("aiohttp")

    async def get() -> bytes:
        timeout = aiohttp.ClientTimeout(sock_read=timeout_s)
        async with aiohttp.ClientSession(timeout=timeout) as client, client.get(url) as answer:
            content: bytes = await answer.read()
            return content

    return asyncio.run(get())


Client = Callable[[str, float], bytes]
CLIENTS = [with_requests, with_urllib3, with_urllib, with_httpx, with_httpx_async, with_aiohttp]
ON_THREADS = [with_requests, with_urllib3, with_urllib, with_httpx]
BODY_COUNTS = [client for client in CLIENTS if client is not with_urllib]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_request_is_one_call_of_the_outermost_client(client: Client, heard: Heard, port: int) -> None:
    before_ns = time.monotonic_ns()
    assert client(f"http://127.0.0.1:{port}/now/17?key=secret", 7) == b"bikes"
    [call] = heard.calls
    assert call.told == (f"127.0.0.1:{port}", "GET /now/*", OK)
    assert before_ns <= call.from_ns < call.to_ns <= time.monotonic_ns()
    assert call.deadline_ns == call.from_ns + 7 * 10**9


@pytest.mark.parametrize("client", CLIENTS)
def test_the_upstreams_own_clock_is_taken_up_where_its_reply_says_it(client: Client, heard: Heard, port: int) -> None:
    for path in ("timed/1", "now/1"):
        assert client(f"http://127.0.0.1:{port}/{path}", 7) == b"bikes"
    assert [call.own_ns for call in heard.calls] == [110_250_000, 0]


@pytest.mark.parametrize("client", [with_requests, with_httpx, with_aiohttp])
def test_a_redirect_belongs_to_its_call(client: Client, heard: Heard, port: int) -> None:
    assert client(f"http://127.0.0.1:{port}/away", 7) == b"bikes"
    assert heard.told() == [(f"127.0.0.1:{port}", "GET /away", OK)]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_connection_is_an_error(client: Client, heard: Heard) -> None:
    nobody = child.free_port()
    with pytest.raises(Exception):  # noqa: B017 (each client has its own)
        client(f"http://127.0.0.1:{nobody}/now", 7)
    assert heard.told() == [(f"127.0.0.1:{nobody}", "GET /now", ERROR)]


@pytest.mark.parametrize("client", CLIENTS)
def test_giving_up_is_a_timeout(client: Client, heard: Heard, port: int) -> None:
    with pytest.raises(Exception):  # noqa: B017
        client(f"http://127.0.0.1:{port}/late/1", DELAY_S / 5)
    [call] = heard.calls
    assert call.outcome == TIMEOUT
    assert call.to_ns >= call.deadline_ns


@pytest.mark.slow
@pytest.mark.parametrize("client", BODY_COUNTS)
def test_a_reply_that_dribbles_in_after_the_deadline_is_ok_and_late(client: Client, heard: Heard, port: int) -> None:
    assert client(f"http://127.0.0.1:{port}/drops/1", 3 * DELAY_S) == b"bikes"
    [call] = heard.calls
    assert call.outcome == OK
    assert call.to_ns > call.deadline_ns > call.from_ns


@pytest.mark.parametrize("client", ON_THREADS)
def test_the_reply_was_there_after_the_delay_and_before_the_return(client: Client, timed: Heard, port: int) -> None:
    client(f"http://127.0.0.1:{port}/late/1", 7)
    [call] = timed.calls
    assert call.from_ns + DELAY_S * 1e9 <= call.ready_ns <= call.to_ns


def test_two_requests_of_one_http_client_connection_are_two_calls(heard: Heard, port: int) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        for path in ("/now", "/late/2"):
            connection.request("GET", path)
            assert connection.getresponse().read() == b"bikes"
        assert "_greenlane_call" not in vars(connection)
    assert [operation for _, operation, _ in heard.told()] == ["GET /now", "GET /late/*"]


def test_while_nothing_is_recorded_nothing_is_written(heard: Heard, port: int) -> None:
    heard.on = False
    for client in CLIENTS:
        assert client(f"http://127.0.0.1:{port}/now", 7) == b"bikes"
    assert heard.calls == []


def test_uninstalled_every_client_is_what_it_was() -> None:
    aiohttp, httpx, requests, urllib3 = map(pytest.importorskip, ("aiohttp", "httpx", "requests", "urllib3"))
    places: list[tuple[Any, str]] = [
        (requests.Session, "send"),
        (urllib3.HTTPConnectionPool, "urlopen"),
        (http.client.HTTPConnection, "getresponse"),
        (httpx.Client, "send"),
        (httpx.AsyncClient, "send"),
        (aiohttp.ClientSession, "_request"),
        (aiohttp.ClientResponse, "read"),
    ]
    before = [vars(owner)[name] for owner, name in places]
    codes = [function.__code__ for function in before]
    clients.install(Heard())
    assert [vars(owner)[name] for owner, name in places] == before
    assert all(function.__code__ is not code for function, code in zip(before, codes, strict=True))
    clients.uninstall()
    assert [vars(owner)[name] for owner, name in places] == before


def test_a_task_that_outlives_the_call_it_was_started_in_has_calls_of_its_own(heard: Heard, port: int) -> None:
    httpx = pytest.importorskip("httpx")
    url = f"http://127.0.0.1:{port}"
    tasks: list[asyncio.Task[Any]] = []
    over = asyncio.Event()

    async def later() -> None:
        await over.wait()
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(f"{url}/late/1")

    async def main() -> None:
        async def hook(_request: object) -> None:
            tasks.append(asyncio.create_task(later()))

        async with httpx.AsyncClient(trust_env=False, event_hooks={"request": [hook]}) as client:
            await client.get(f"{url}/now/1")
        over.set()
        await tasks[0]

    asyncio.run(main())
    assert [operation for _, operation, _ in heard.told()] == ["GET /now/*", "GET /late/*"]


def test_requests_side_by_side_are_calls_of_their_own(heard: Heard, port: int) -> None:
    httpx = pytest.importorskip("httpx")

    async def main() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await asyncio.gather(*(client.get(f"http://127.0.0.1:{port}/late/{n}") for n in range(5)))

    asyncio.run(main())
    assert len(heard.calls) == 5
    assert max(call.from_ns for call in heard.calls) < min(call.to_ns for call in heard.calls)


def test_an_aiohttp_response_that_is_left_unread_ended_with_its_headers(heard: Heard, port: int) -> None:
    aiohttp = pytest.importorskip("aiohttp")
    left_ns = 0

    async def main() -> None:
        nonlocal left_ns
        async with aiohttp.ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{port}/late/1") as answer:
                assert answer.status == 200
                left_ns = time.monotonic_ns()

    asyncio.run(main())
    [call] = heard.calls
    assert call.to_ns <= left_ns


def test_the_wait_for_a_connection_of_a_full_pool_is_a_pool_wait(heard: Heard, port: int) -> None:
    urllib3 = pytest.importorskip("urllib3")
    with urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=1, block=True) as pool:
        threads = [threading.Thread(target=pool.request, args=("GET", "/late/1")) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    waited = max((to_ns - from_ns, to_ns) for kind, from_ns, to_ns in heard.waits if kind == "pool")
    assert waited[0] > DELAY_S * 1e9 / 2
    assert len(heard.calls) == 2
    assert max(call.from_ns for call in heard.calls) == waited[1], "the wait is not the upstream's"


def test_a_time_out_that_covers_the_wait_for_a_connection_begins_before_it(heard: Heard, port: int) -> None:
    aiohttp = pytest.importorskip("aiohttp")

    async def get(client: Any) -> None:
        async with client.get(f"http://127.0.0.1:{port}/late/1", timeout=aiohttp.ClientTimeout(total=7)) as answer:
            await answer.read()

    async def main() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as client:
            await asyncio.gather(get(client), get(client))

    asyncio.run(main())
    first, second = heard.calls
    assert second.from_ns > first.from_ns + DELAY_S * 1e9
    assert second.deadline_ns < second.from_ns + 7 * 10**9


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_opentelemetry_and_ours_see_the_same_request(first: str, port: int) -> None:
    requests = pytest.importorskip("requests")
    for name in ("requests", "urllib3"):
        pytest.importorskip(f"opentelemetry.instrumentation.{name}")
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.instrumentation.requests import RequestsInstrumentor
    from opentelemetry.instrumentation.urllib3 import URLLib3Instrumentor
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    theirs = [RequestsInstrumentor(), URLLib3Instrumentor()]
    heard, before = Heard(), vars(requests.Session)["send"]

    def instrument() -> None:
        for one in theirs:
            one.instrument(tracer_provider=provider)

    def uninstrument() -> None:
        for one in theirs:
            one.uninstrument()

    with contextlib.ExitStack() as undone:
        for name in (first, "theirs" if first == "ours" else "ours"):
            if name == "ours":
                clients.install(heard)
                undone.callback(clients.uninstall)
            else:
                instrument()
                undone.callback(uninstrument)
        assert with_requests(f"http://127.0.0.1:{port}/now/1", 7) == b"bikes"
        assert heard.told() == [(f"127.0.0.1:{port}", "GET /now/*", OK)]
        assert len(spans.get_finished_spans()) >= 1
    assert vars(requests.Session)["send"] is before


GEVENT = """
from gevent import monkey; monkey.patch_all()
import sys, time, gevent, requests
sys.path[:0] = sys.argv[2].split(":")
from greenlane.probes.calls import clients
from tests.probes.heard import Heard
heard = Heard()
clients.install(heard)
session = requests.Session(); session.trust_env = False
def get(n):
    assert requests.get(f"http://127.0.0.1:{sys.argv[1]}/late/{n}", timeout=5).content == b"bikes"
gevent.joinall([gevent.spawn(get, n) for n in range(6)], raise_error=True)
assert len(heard.calls) == 6, heard.calls
assert max(call.from_ns for call in heard.calls) < min(call.to_ns for call in heard.calls), "side by side"
assert {call.told for call in heard.calls} == {(f"127.0.0.1:{sys.argv[1]}", "GET /late/*", 0)}
def impatient():
    with gevent.Timeout(0.01):
        get(1)
greenlet = gevent.spawn(impatient); greenlet.join()
assert heard.calls[-1].outcome == 2, "gevent's own time-out"
"""


@pytest.mark.slow
def test_green_threads_side_by_side_have_calls_of_their_own(
    port: int, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    pytest.importorskip("gevent")

    run_python(f"import warnings; warnings.simplefilter('ignore')\n{GEVENT}", str(port), IMPORT_PATH)
