"""Servers that know nothing of Greenlane: each request is a job, from its arrival to its last byte."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hosts.observed import FLASK, PLAIN, Service, gunicorn, only, seconds_ago

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

GUNICORNS = {
    "gunicorn.sync": ("-k", "sync"),
    "gunicorn.gthread": ("-k", "gthread", "--threads", "3"),
    "gunicorn.gevent": ("-k", "gevent"),
    "greenlane.gunicorn": ("-k", "greenlane.hosts.gunicorn.Worker"),
}
WAITRESS = "import sys, waitress, app; waitress.serve(app.app, listen='127.0.0.1:' + sys.argv[1], threads=2)"
CHEROOT = """
import sys, app
from cheroot.wsgi import Server
server = Server(("127.0.0.1", int(sys.argv[1])), app.app, numthreads=2)
server.start()
"""
WSGIREF = """
import sys, app
from wsgiref.simple_server import make_server
make_server("127.0.0.1", int(sys.argv[1]), app.app).serve_forever()
"""
GEVENT = """
from gevent import monkey
monkey.patch_all()
import sys, app
from gevent.pywsgi import WSGIServer
WSGIServer(("127.0.0.1", int(sys.argv[1])), app.app).serve_forever()
"""
TORNADO = Path(__file__).with_name("tornado_app.py")
HANDLER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.02)
        if self.path == "/boom":
            raise ValueError("boom")
        self.send_response(204)
        self.end_headers()
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
SERVERS = {"waitress": WAITRESS, "cheroot": CHEROOT, "wsgiref": WSGIREF, "gevent.pywsgi": GEVENT}
#: What is sent at once, on one connection, to each server that answers in turn.
CONTAINER = """
import asyncio, sys, app
from tornado.httpserver import HTTPServer
from tornado.wsgi import WSGIContainer
async def main():
    HTTPServer(WSGIContainer(app.app)).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()
asyncio.run(main())
"""
PIPELINED = {"gevent.pywsgi": (GEVENT, "/plain"), "tornado": (TORNADO.read_text(), "/quote/7")}


@pytest.fixture
def serve(tmp_path: Path, start_process: StartProcess, free_port: int) -> Callable[..., Service]:
    """Starts a recorded server for an `app.py`."""

    def start(app: str, argv: Callable[[int], list[str]]) -> Service:
        (tmp_path / "app.py").write_text(app)
        return Service(start_process, tmp_path, free_port, argv(free_port))

    return start


@pytest.mark.parametrize("host", GUNICORNS)
@pytest.mark.gate
def test_gunicorns_requests_are_jobs(serve: Callable[..., Service], host: str) -> None:
    service = serve(FLASK, lambda port: gunicorn(*GUNICORNS[host], port=port))
    assert service.get("/quote/7").body == b"quote 7"
    assert service.get("/boom").status == 500
    assert service.get("/absent").status == 404
    assert service.get("/stream").body == b"piece piece piece "
    assert service.get("/file").body.decode() == FLASK
    assert service.get("/stream", X_Request_Start=seconds_ago(2)).status == 200
    recording = service.stop()
    assert {job.host for job in recording.jobs} == {host}
    assert sum(job.latency_ns for job in recording.jobs) > 0
    quote = only(recording, "GET /quote/<int:number>")
    assert (quote.status, quote.clock) == (200, "accept" if host == "greenlane.gunicorn" else "kernel")
    assert quote.latency_ns >= 20_000_000
    assert only(recording, "GET /boom").status == 500
    assert only(recording, "GET (no route)").status == 404
    assert only(recording, "GET /file").status == 200
    by_kernel, by_front = sorted(
        (job for job in recording.jobs if job.route == "GET /stream"), key=lambda job: job.clock
    )[:: -1 if host != "greenlane.gunicorn" else 1]
    streams = {job.clock: job for job in (by_kernel, by_front)}
    assert streams.pop("header").latency_ns >= 2_060_000_000
    (other,) = streams.values()
    assert 60_000_000 <= other.latency_ns < 1_000_000_000


def test_a_stream_of_our_worker_s_http2_is_one_job(serve: Callable[..., Service]) -> None:
    pytest.importorskip("h2.connection", reason="pip install h2")
    from tests.hosts.gunicorn_server import Server
    from tests.hosts.test_gunicorn_http2 import H2, Client

    service = serve(FLASK, lambda port: gunicorn(*GUNICORNS["greenlane.gunicorn"], *H2, port=port))
    with Client(Server(service.process, ("127.0.0.1", service.port), Path())) as client:
        client.ask("/quote/7")
        client.ask("/absent")
        statuses = sorted(status for status, _ in client.answers(2).values())
    assert statuses == ["200", "404"]
    jobs = service.stop().jobs
    assert sorted((job.host, job.route, job.status, job.clock) for job in jobs) == [
        ("greenlane.gunicorn", "GET (no route)", 404, "accept"),
        ("greenlane.gunicorn", "GET /quote/<int:number>", 200, "accept"),
    ]


@pytest.mark.parametrize("host", ["gunicorn.sync", "gunicorn.gthread"])
def test_the_wait_before_a_busy_worker_is_part_of_the_request(serve: Callable[..., Service], host: str) -> None:
    import threading

    service = serve(FLASK, lambda port: gunicorn("-k", host.partition(".")[2], port=port))
    asking = [threading.Thread(target=service.get, args=(f"/quote/{number}",)) for number in range(5)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    latencies = sorted(job.latency_ns for job in service.stop().jobs)
    assert latencies[-1] >= 5 * 20_000_000


def test_workers_are_processes_and_a_reload_makes_more(serve: Callable[..., Service]) -> None:
    import signal

    service = serve(FLASK, lambda port: gunicorn("-w", "2", port=port))
    for number in range(10):
        service.get(f"/quote/{number}")
    service.process.signal(signal.SIGHUP)
    service.process.wait_output("Handling signal: hup")
    service.process.wait_output("(?s)Booting worker.*Booting worker.*Booting worker.*Booting worker")
    for number in range(10):
        assert service.get(f"/quote/{number}").status == 200
    recording = service.stop()
    assert len(recording.jobs) == 20
    assert len(recording.processes) == 5
    assert "SIGHUP" not in recording.notes


def test_flasks_development_server_is_observed(serve: Callable[..., Service]) -> None:
    service = serve(FLASK, lambda port: [sys.executable, "app.py", str(port)])
    assert service.get("/quote/7").status == 200
    assert service.get("/boom").status == 500
    assert service.get("/stream", X_Queue_Start=seconds_ago(1)).status == 200
    recording = service.stop()
    assert {job.host for job in recording.jobs} == {"werkzeug.serving"}
    assert only(recording, "GET /quote/<int:number>").latency_ns >= 20_000_000
    assert only(recording, "GET /boom").status == 500
    assert only(recording, "GET /stream").latency_ns >= 1_060_000_000


@pytest.mark.parametrize("host", SERVERS)
@pytest.mark.gate
def test_other_wsgi_servers_requests_are_jobs(serve: Callable[..., Service], host: str) -> None:
    service = serve(PLAIN, lambda port: [sys.executable, "-c", SERVERS[host], str(port)])
    plain = service.get("/plain")
    assert (plain.status, plain.body) == (200, b"plain")
    if host in ("waitress", "wsgiref"):
        assert plain.headers["content-length"] == "5"  # from the one piece, as without us
    assert service.get("/boom").status == 500
    recording = service.stop()
    plain_job = only(recording, "GET /plain")
    assert (plain_job.host, plain_job.status, plain_job.clock) == (host, 200, "kernel")
    assert plain_job.latency_ns >= 20_000_000
    assert only(recording, "GET /boom").status == 500


def test_gunicorns_worker_on_gevents_server_counts_once(serve: Callable[..., Service]) -> None:
    service = serve(FLASK, lambda port: gunicorn("-k", "gevent_pywsgi", port=port))
    for number in range(5):
        assert service.get(f"/quote/{number}").status == 200
    assert [job.host for job in service.stop().jobs] == ["gunicorn.gevent"] * 5


@pytest.mark.parametrize("host", PIPELINED)
def test_pipelined_requests_arrive_when_their_bytes_do(serve: Callable[..., Service], host: str) -> None:
    program, path = PIPELINED[host]
    service = serve(PLAIN, lambda port: [sys.executable, "-c", program, str(port)])
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\n"
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", service.port), timeout=20) as client:
            client.sendall(f"{head}\r\n{head}\r\n{head}Connection: close\r\n\r\n".encode())
            answers = b"".join(iter(lambda: client.recv(65536), b""))
        assert answers.count(b" 200 OK") == 3
    jobs = sorted(service.stop().jobs, key=lambda job: job.end_ns)
    assert {(job.host, job.status, job.clock) for job in jobs} == {(host, 200, "kernel")}
    for first, *later in (jobs[:3], jobs[3:]):
        assert [job.arrival_ns for job in later] == [first.arrival_ns] * 2
        assert [job.latency_ns >= number * 20_000_000 for number, job in enumerate(later, 2)] == [True, True]


@pytest.mark.parametrize("host", ["gevent.pywsgi", "waitress", "http.server"])
def test_a_websocket_is_no_job(serve: Callable[..., Service], host: str) -> None:
    program = {"http.server": HANDLER, **SERVERS}[host]
    service = serve(PLAIN, lambda port: [sys.executable, "-c", program, str(port)])
    service.get("/socket", Connection="Upgrade", Upgrade="websocket")
    service.get("/plain")
    assert [job.route for job in service.stop().jobs] == ["GET /plain"]


@pytest.mark.gate
def test_tornados_requests_are_jobs(serve: Callable[..., Service]) -> None:
    service = serve("", lambda port: [sys.executable, str(TORNADO), str(port)])
    assert service.get("/quote/7").body == b"quote 7"
    assert service.get("/boom").status == 500
    assert service.get("/absent").status == 404
    assert service.get("/stream", X_Request_Start=seconds_ago(2)).body == b"piece piece piece "
    assert service.get("/body", "POST", body=b"x" * 200_000).body == b"200000"
    assert service.get("/callback").status == 202
    assert service.get("/wsgi/bikes/1").body == b"bike"
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as client:
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        client.sendall(
            f"GET /socket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}\r\n".encode()
        )
        assert client.recv(65536).startswith(b"HTTP/1.1 101")
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as client:
        client.sendall(b"GET /forever HTTP/1.1\r\nHost: x\r\n\r\n")
    assert service.get("/upstream").body == b"quote 1"
    recording = service.stop()
    assert sorted((job.host, job.route, job.status, job.clock) for job in recording.jobs) == sorted(
        ("tornado", route, status, clock)
        for route, status, clock in (
            (r"GET /quote/(\d+)", 200, "kernel"),
            ("GET /boom", 500, "kernel"),
            ("GET (no route)", 404, "kernel"),
            ("GET /stream", 200, "header"),
            ("POST /body", 200, "kernel"),
            ("GET /callback", 202, "kernel"),
            ("GET /wsgi/bikes/<int:number>", 200, "kernel"),
            ("GET /forever", 0, "kernel"),
            ("GET /upstream", 200, "kernel"),
            (r"GET /quote/(\d+)", 200, "kernel"),
        )
    )
    assert only(recording, "GET /stream").latency_ns >= 2_060_000_000
    assert only(recording, "GET /upstream").io_ns and all(
        job.io_ns["sleep"] >= 18_000_000 for job in recording.jobs if job.route == r"GET /quote/(\d+)"
    )


def test_an_application_in_tornados_container_works_for_its_own_request(serve: Callable[..., Service]) -> None:
    """The connection's task, which read earlier requests, makes a task for each."""
    import http.client

    service = serve(FLASK, lambda port: [sys.executable, "-c", CONTAINER, str(port)])
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    for path in ("/quote/1", "/file", "/absent", "/quote/2", "/stream"):
        connection.request("GET", path)
        connection.getresponse().read()
    connection.close()
    jobs = sorted(service.stop().jobs, key=lambda job: job.handler_ns)
    assert [(job.route, job.status, job.io_ns.get("sleep", 0) >= 18_000_000) for job in jobs] == [
        ("GET /quote/<int:number>", 200, True),
        ("GET /file", 200, False),
        ("GET (no route)", 404, False),
        ("GET /quote/<int:number>", 200, True),
        ("GET /stream", 200, True),
    ]


@pytest.mark.gate
def test_plain_request_handlers_are_observed(serve: Callable[..., Service]) -> None:
    import http.client

    service = serve("", lambda port: [sys.executable, "-c", HANDLER, str(port)])
    assert service.get("/items/7").status == 204
    with pytest.raises(http.client.RemoteDisconnected):
        service.get("/boom")
    assert service.get("/items/8?q=1", X_Request_Start=seconds_ago(1)).status == 204
    recording = service.stop()
    assert {job.route: job.status for job in recording.jobs} == {"GET /items/*": 204, "GET /boom": 500}
    assert {job.clock for job in recording.jobs} == {"kernel", "header"}


def test_a_server_with_permits_is_recorded_as_well(serve: Callable[..., Service]) -> None:
    app = FLASK + "\nfrom greenlane.hosts.wsgi import Greenlane\napp = Greenlane(app)\n"
    service = serve(app, lambda port: gunicorn("-k", "gthread", "--threads", "3", port=port))
    for number in range(5):
        assert service.get(f"/quote/{number}").status == 200
    recording = service.stop()
    assert [job.route for job in recording.jobs] == ["GET /quote/<int:number>"] * 5
