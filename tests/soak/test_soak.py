"""A minute of faults on a real gunicorn worker: no leak, every permit back, every answer that was waited for right."""

import http.client
import json
import os
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from greenlane.control import client as control
from tests import child
from tests.where import IMPORT_PATH

# The whole test; shorter runs (while working on it) show less.
SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
CLIENTS = 12
THREADS = 16
KINDS = {"heavy": 30, "light": 40, "stream": 8, "post": 8, "raise": 3, "exit": 2, "fork": 2, "dies": 4, "abort": 12}


class Clients:
    """Clients that send a random mix until they are stopped."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self._stop = threading.Event()
        self._mutex = threading.Lock()
        self._threads = [
            threading.Thread(target=self._client, args=(random.Random(seed + who), who), daemon=True)
            for who in range(CLIENTS)
        ]

    def run(self, seconds: float) -> None:
        for thread in self._threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.wrong.append(f"{thread.name} waits for an answer for ever")

    def _client(self, chance: random.Random, who: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        n = who * 1_000_000
        while not self._stop.is_set():
            n += 1
            kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
            problem = self._abort(chance, n) if kind == "abort" else self._ask(connection, chance, kind, n)
            with self._mutex:
                self.counts[kind] += 1
                if problem:
                    self.wrong.append(problem)
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, chance: random.Random, kind: str, n: int) -> str:
        length = chance.randrange(60_000)
        try:
            if kind == "post":
                connection.request("POST", f"/post/{n}", body=bytes(length))
            else:
                connection.request("GET", f"/{kind}/{n}")
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
            if answer.will_close:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return f"/{kind}/{n}: {error!r}"
        if kind in ("raise", "exit"):
            return "" if status == 500 else f"/{kind}/{n}: {status}"
        if kind == "stream":
            return "" if (status, body) == (200, f"{n},".encode() * 10_000) else f"/{kind}/{n}: {status} {len(body)}"
        expected = {"n": n, "sum": 5050} | ({"length": length} if kind == "post" else {})
        return "" if status == 200 and json.loads(body) == expected else f"/{kind}/{n}: {status} {body[:200]!r}"

    def _abort(self, chance: random.Random, n: int) -> str:
        """Leaves in the middle: of the head, of the body, of the wait, of the answer; half of them with a reset."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            if chance.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            way = chance.randrange(4)
            try:
                if way == 0:
                    connection.sendall(b"GET /heavy/1 HT")
                elif way == 1:
                    connection.sendall(b"POST /post/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nabc")
                elif way == 2:
                    connection.sendall(f"GET /heavy/{n} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                else:
                    connection.sendall(f"GET /stream/{n} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                    connection.recv(1000)
                self._stop.wait(chance.random() * 0.01)
            except OSError:
                pass
        return ""


def usage(pid: int) -> dict[str, int]:
    """Threads, file descriptors and resident memory of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "threads": int(status["Threads"]),
        "fds": len(os.listdir(f"/proc/{pid}/fd")),
        "rss_mb": int(status["VmRSS"].split()[0]) // 1024,
    }


def settled(process: control.Process) -> dict[str, int]:
    """Counters once each granted permit is back."""
    end_s = time.monotonic() + 10
    while True:
        counted = control.ask(process.socket, {"do": "show"})["counters"]
        if counted["granted"] + counted["waited_granted"] == counted["released"]:
            return counted
        assert time.monotonic() < end_s, f"permits are missing: {counted}"
        time.sleep(0.05)


@pytest.mark.soak
@pytest.mark.timeout(300, method="thread")
def test_a_minute_of_faults_leaks_nothing_and_answers_everybody(tmp_path):
    port = child.free_port()
    command = "-m gunicorn -k greenlane.hosts.gunicorn.Worker --threads {} -b 127.0.0.1:{} tests.soak.app:application"
    with tempfile.TemporaryDirectory(prefix="greenlane-") as control_dir:
        environment = {
            "GREENLANE_CONTROL_DIR": control_dir,
            "GREENLANE_BODY_TIMEOUT_S": "2",
            "PYTHONPATH": os.pathsep.join(filter(None, [IMPORT_PATH, os.environ.get("PYTHONPATH")])),
        }
        arguments = command.format(THREADS, port).split()
        with child.Child([sys.executable, *arguments], env=environment, cwd=tmp_path) as server:
            server.wait_port(port)
            warm = Clients(port, seed=1)
            warm.run(SECONDS / 6)
            (process,) = control.processes(control_dir)
            settled(process)
            before = usage(process.pid)

            modes = Counter()
            stop = threading.Event()

            def switch() -> None:
                chance = random.Random(7)
                while not stop.wait(0.3):
                    mode = chance.choices(["on", "off", "observe"], [6, 1, 1])[0]
                    control.ask(process.socket, {"do": "mode", "mode": mode, "route": None})
                    modes[mode] += 1

            switching = threading.Thread(target=switch, daemon=True)
            switching.start()
            clients = Clients(port, seed=2)
            clients.run(SECONDS * 4 / 6)
            stop.set()
            switching.join(10)
            control.ask(process.socket, {"do": "mode", "mode": "on", "route": None})

            counted = settled(process)
            # Bodies that never come are given up after body_timeout_s; then nothing of any client is left.
            end_s = time.monotonic() + 15
            while (after := usage(process.pid))["fds"] > before["fds"] + 2 and time.monotonic() < end_s:
                time.sleep(0.1)
            told = f"before {before}, after {after}\n{clients.counts}, modes {modes}\n{counted}"
            print(told)
            assert warm.wrong + clients.wrong == [], f"{told}\n{server.output[-5000:]}"
            assert [each.pid for each in control.processes(control_dir)] == [process.pid], server.output[-5000:]
            assert after["fds"] <= before["fds"] + 2, told
            assert after["threads"] <= THREADS + 8, told
            assert after["rss_mb"] <= before["rss_mb"] + 24, told
            assert counted["waited"] > 0, told
            final = Clients(port, seed=3)
            final.run(SECONDS / 12)
            assert final.wrong == [], server.output[-5000:]
            settled(process)
