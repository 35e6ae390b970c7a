"""HTTP/2: its streams are jobs, its idle connections hold no thread."""

from __future__ import annotations

import contextlib
import signal
import socket

import pytest
from tests.hosts.gunicorn_server import Server

connection = pytest.importorskip("h2.connection", reason="pip install h2")
config = pytest.importorskip("h2.config")
events = pytest.importorskip("h2.events")

pytestmark = pytest.mark.system

H2 = ("--http-protocols", "h2,h1", "--http2-cleartext", "both")


class Client:
    """One HTTP/2 connection with prior knowledge."""

    def __init__(self, server: Server) -> None:
        self.sock: socket.socket = server.connect()
        self._h2 = connection.H2Connection(config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._flush()
        self.went_away = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *problem: object) -> None:
        self.sock.close()

    def ask(self, path: str, body: bytes = b"") -> int:
        stream = self._h2.get_next_available_stream_id()
        method = "POST" if body else "GET"
        head = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "x")]
        self._h2.send_headers(stream, head, end_stream=not body)
        if body:
            self._h2.send_data(stream, body, end_stream=True)
        self._flush()
        return stream

    def answers(self, number: int) -> dict[int, tuple[str, bytes]]:
        """Status and body of the next `number` answers, by stream."""
        statuses: dict[int, str] = {}
        bodies: dict[int, bytes] = {}
        ended = 0
        while ended < number:
            for event in self.read():
                if isinstance(event, events.ResponseReceived):
                    statuses[event.stream_id] = dict(event.headers)[":status"]
                elif isinstance(event, events.DataReceived):
                    bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, events.StreamEnded):
                    ended += 1
            self._flush()
        return {stream: (status, bodies.get(stream, b"")) for stream, status in statuses.items()}

    def reset(self, stream: int) -> int:
        """Wait until the server resets a stream; the error code."""
        while True:
            for event in self.read():
                assert not isinstance(event, events.StreamEnded), "the answer looks whole"
                if isinstance(event, events.StreamReset) and event.stream_id == stream:
                    return int(event.error_code)

    def read(self) -> list[object]:
        data = self.sock.recv(65536)
        assert data, "the connection has been closed"
        return list(self._h2.receive_data(data))

    def _flush(self) -> None:
        self.sock.sendall(self._h2.data_to_send())


@pytest.mark.gate
def test_streams_are_served_and_are_jobs(gunicorn) -> None:
    server = gunicorn(*H2, metrics_path="/metrics")
    with Client(server) as client:
        streams = [client.ask("/"), client.ask("/length", b"x" * 5000), client.ask("/stream")]
        answers = client.answers(3)
        assert [answers[stream][0] for stream in streams] == ["200"] * 3
        assert answers[streams[1]][1] == b"5000"
        metrics = client.ask("/metrics")
        assert 'greenlane_jobs_total{worker="1"' in client.answers(1)[metrics][1].decode()
    assert server.get().body == b"hello\n"


def test_idle_connections_hold_no_thread(gunicorn) -> None:
    server = gunicorn("--threads", "2", "--keep-alive", "20", *H2)
    with contextlib.ExitStack() as clients:
        for _ in range(6):
            client = clients.enter_context(Client(server))
            client.ask("/")
            assert len(client.answers(1)) == 1
        assert server.get("/threads").text in ("1", "2")
        client.ask("/pid")
        assert len(client.answers(1)) == 1


def test_an_upgraded_connection_serves_on(gunicorn) -> None:
    server = gunicorn(*H2)
    with server.connect() as sock:
        upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n"
        sock.sendall(f"GET / HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n".encode())
        assert sock.recv(1000).startswith(b"HTTP/1.1 101 ")


def test_a_stopping_worker_says_goaway_to_idle_connections(gunicorn) -> None:
    server = gunicorn("--keep-alive", "60", *H2)
    with Client(server) as client:
        client.ask("/")
        client.answers(1)
        server.process.signal(signal.SIGTERM)
        seen: list[object] = []
        while not any(isinstance(event, events.ConnectionTerminated) for event in seen):
            seen += client.read()
    assert server.process.wait_exit() == 0


@pytest.mark.parametrize("path", ["/declares?1000", "/declares-file?/dev/null"])
def test_an_answer_shorter_than_declared_resets_its_stream_and_no_other(gunicorn, path: str) -> None:
    server = gunicorn("--threads", "1", *H2)
    with Client(server) as client:
        for _ in range(2):
            stream = client.ask(path)
            assert client.reset(stream) == 2  # INTERNAL_ERROR
        whole = client.ask("/declares?4")
        assert client.answers(1)[whole] == ("200", b"0123")
    assert server.get().body == b"hello\n"
