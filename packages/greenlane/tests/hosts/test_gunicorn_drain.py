"""Nobody is cut off when a worker stops: TERM, HUP, `max_requests`."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import threading

import pytest
from tests.hosts.gunicorn_server import InBackground, Server, read_all, read_answer

pytestmark = pytest.mark.system

REQUEST = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


class KeepAliveClient:
    """Asks again and again on one connection; makes a new one when the server has closed it between two answers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stop = threading.Event()
        self.pids: set[str] = set()
        self.answers = 0
        self.idle_closes = 0
        self._run = InBackground(self._ask)

    def end(self) -> None:
        self._stop.set()
        self._run.result()

    def _ask(self) -> None:
        with contextlib.ExitStack() as connection:
            sock = connection.enter_context(self._server.connect())
            while not self._stop.is_set():
                try:
                    sock.sendall(REQUEST % b"/pid")
                    answer = read_answer(sock)
                except (http.client.RemoteDisconnected, BrokenPipeError):
                    # The end of an idle connection, in order: nothing of an answer was lost. A reset would fail here.
                    self.idle_closes += 1
                    connection.close()
                    sock = connection.enter_context(self._server.connect())
                    continue
                assert answer.status == 200
                self.pids.add(answer.text)
                self.answers += 1
                if answer.headers["connection"] == "close":
                    connection.close()
                    sock = connection.enter_context(self._server.connect())


@pytest.mark.gate
def test_keep_alive_clients_see_no_reset_while_workers_are_recycled(gunicorn) -> None:
    server = gunicorn("--workers", "2", "--max-requests", "150", "--max-requests-jitter", "40")
    clients = [KeepAliveClient(server) for _ in range(3)]
    server.process.wait_output("(Booting worker[^$]*){7}", timeout_s=50)
    for client in clients:
        client.end()
    assert sum(client.answers for client in clients) >= 750
    assert sum(client.idle_closes for client in clients) == 0


def test_keep_alive_clients_see_no_reset_while_a_lone_worker_is_recycled(gunicorn) -> None:
    server = gunicorn("--max-requests", "100")
    clients = [KeepAliveClient(server) for _ in range(2)]
    server.process.wait_output("(Booting worker[^$]*){4}", timeout_s=50)
    for client in clients:
        client.end()
    assert sum(client.idle_closes for client in clients) == 0


def test_keep_alive_clients_see_no_reset_while_the_server_is_reloaded(gunicorn) -> None:
    server = gunicorn("--workers", "2")
    clients = [KeepAliveClient(server) for _ in range(3)]
    for number in (4, 6):
        server.process.signal(signal.SIGHUP)
        server.process.wait_output(f"(Booting worker[^$]*){{{number}}}")
        server.process.wait_output(f"(Worker exiting[^$]*){{{number - 2}}}")
    for client in clients:
        client.end()
    assert sum(client.idle_closes for client in clients) == 0


def test_max_requests_is_kept(gunicorn) -> None:
    server = gunicorn("--max-requests", "5")
    pids = [server.get("/pid").text for _ in range(4)]
    last = server.get("/pid")
    assert len({*pids, last.text}) == 1
    server.process.wait_output("Autorestarting worker after current request")


@pytest.mark.gate
def test_term_lets_what_is_in_progress_end_and_closes_idle_connections_in_order(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as idle, server.connect() as busy:
        idle.sendall(REQUEST % b"/")
        assert read_answer(idle).headers["connection"] == "keep-alive"
        busy.sendall(REQUEST % f"/hold?{server.folder / 'gate'}".encode())
        server.process.wait_output("entered")
        server.process.signal(signal.SIGTERM)
        server.process.wait_output("Handling signal: term")
        assert idle.recv(10) == b""
        server.release("gate")
        answer = read_answer(busy)
    assert (answer.body, answer.headers["connection"]) == (b"held\n", "close")
    assert server.process.wait_exit() == 0


def test_a_request_on_a_kept_connection_of_a_stopping_worker_is_answered(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        sock.sendall(REQUEST % b"/")
        read_answer(sock)
        server.process.signal(signal.SIGTERM)
        server.process.wait_output("Handling signal: term")
        connection = "keep-alive"
        while connection == "keep-alive":  # the arbiter says so before its worker knows
            sock.sendall(REQUEST % b"/")
            answer = read_answer(sock)
            assert answer.status == 200
            connection = answer.headers["connection"]
    assert connection == "close"


def test_who_has_connected_before_term_is_served(gunicorn) -> None:
    server = gunicorn("--threads", "2", "--worker-connections", "2")
    held = server.held("gate", 2)
    with server.connect() as sock:  # stands at the door: no connection is free
        sock.sendall(REQUEST % b"/")
        server.process.signal(signal.SIGTERM)
        server.process.wait_output("Handling signal: term")
        server.release("gate")
        assert read_answer(sock).status == 200
    assert [request.result().status for request in held] == [200, 200]


def test_connections_are_refused_once_the_server_stops(gunicorn) -> None:
    server = gunicorn()
    held = server.held("gate", 1)
    server.process.signal(signal.SIGTERM)
    with pytest.raises(ConnectionRefusedError):
        while True:
            with contextlib.suppress(ConnectionResetError):  # made in the moment when the listener was closed
                socket.create_connection(server.address).close()
    server.release("gate")
    assert held[0].result().status == 200


def test_a_stream_in_progress_ends_whole(gunicorn) -> None:
    server = gunicorn()
    with server.connect() as sock:
        sock.sendall(REQUEST % f"/started?{server.folder / 'gate'}".encode())
        begun = sock.recv(65536)
        server.process.signal(signal.SIGTERM)
        server.process.wait_output("Handling signal: term")
        server.release("gate")
        assert (begun + read_all(sock)).endswith(b"5\r\nended\r\n0\r\n\r\n")


def test_a_killed_worker_leaves_the_others_accepting(gunicorn) -> None:
    server = gunicorn("--workers", "2")
    server.process.wait_output("(Booting worker[^$]*){2}")
    victim = int(server.get("/pid").text)
    os.kill(victim, signal.SIGKILL)
    assert [server.get().status for _ in range(20)] == [200] * 20
