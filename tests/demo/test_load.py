"""The generator sends what was scheduled when it was scheduled, whatever the server does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from greenlane.demo.load import run
from greenlane.demo.plan import Plan, Stream, schedule
from greenlane.demo.samples import FAILED, UNANSWERED, Sample

pytestmark = [pytest.mark.slow, pytest.mark.measured]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Answer = Callable[[socket.socket, int], None]


class Server:
    """Accepts connections on a loopback port and lets `answer(connection, number of the request)` speak."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while head := connection.recv(4096):
                self.requests.append(head)
                self._answer(connection, len(self.requests))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Server]]:
    with contextlib.ExitStack() as stack:

        def start(answer: Answer) -> Server:
            server = Server(answer)
            stack.callback(server.close)
            return server

        yield start


def answered(connection: socket.socket, number: int) -> None:
    connection.sendall(OK)


def load(server: Server, timeout_s: float = 5.0, **options: object) -> tuple[Plan, list[Sample]]:
    stream = Stream("quote", server.address, "/quote", 100.0, cost_ms=40.0, work_mean_ms=40.0, work_cv=1.0)
    plan = Plan("seed", 0.5, (stream,), timeout_s, **options)  # type: ignore[arg-type]
    return plan, run(plan)


def test_every_scheduled_request_is_sent_once_with_its_work(serve: Callable[[Answer], Server]) -> None:
    server = serve(answered)
    plan, samples = load(server)
    arrivals = schedule(plan)
    assert [sample.scheduled_ns for sample in samples] == [int(arrival.at_s * 1e9) for arrival in arrivals]
    assert all(sample.status == 200 for sample in samples)
    sent = sorted(head.split(b" ")[1] for head in server.requests)
    assert sent == sorted(f"/quote?ms={arrival.work_ms}".encode() for arrival in arrivals)


def test_no_request_leaves_before_its_time_and_all_leave_though_none_is_answered(
    serve: Callable[[Answer], Server],
) -> None:
    server = serve(lambda connection, number: None)
    plan, samples = load(server, timeout_s=0.7)
    assert len(server.requests) == len(samples) == len(schedule(plan))  # open loop: silence does not slow it down
    assert all(sample.sent_ns >= sample.scheduled_ns for sample in samples)
    assert all(sample.status == UNANSWERED and sample.latency_ms() >= 700 for sample in samples)


def test_a_connection_each_or_kept(serve: Callable[[Answer], Server]) -> None:
    each, kept = serve(answered), serve(answered)
    _, samples = load(each)
    assert each.connections == len(samples)
    _, samples = load(kept, connections="keep-alive")
    assert len(kept.requests) == len(samples) and kept.connections < len(samples)


def test_a_server_that_closes_kept_connections_loses_no_request(serve: Callable[[Answer], Server]) -> None:
    def once(connection: socket.socket, number: int) -> None:
        connection.sendall(OK)
        connection.close()

    _, samples = load(serve(once), connections="keep-alive")
    assert all(sample.status == 200 for sample in samples)


def test_other_answers_are_recorded_as_what_they_are(serve: Callable[[Answer], Server]) -> None:
    answers = [
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"",
    ]

    def varied(connection: socket.socket, number: int) -> None:
        connection.sendall(answers[number % 4])
        connection.shutdown(socket.SHUT_RDWR)

    _, samples = load(serve(varied))
    statuses = [sample.status for sample in samples]
    assert set(statuses) == {503, 200, FAILED}
    assert statuses.count(200) >= 2 * (len(statuses) // 4)


def test_nobody_listening_is_a_failure_and_not_an_exception() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        stream = Stream("quote", f"127.0.0.1:{unused.getsockname()[1]}", "/", 50.0)
        samples = run(Plan("seed", 0.3, (stream,)))
    assert samples and all(sample.status == FAILED for sample in samples)
