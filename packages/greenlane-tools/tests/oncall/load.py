"""Clients of the situations: a few threads, each request timed by the client from the moment it was due."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """One request as its client saw it."""

    path: str
    #: 0 = no answer.
    status: int
    seconds: float


class Clients:
    """Collects what the clients of one service see; every method returns when its requests are answered."""

    def __init__(self, port: int) -> None:
        self.port = port
        #: Path -> port, of those that another server has.
        self.elsewhere: dict[str, int] = {}
        self.seen: list[Seen] = []
        #: Of those on connections of their own.
        self.bodies: list[bytes] = []

    def ask(self, path: str, due_s: float | None = None) -> None:
        """One request on a connection of its own."""
        began_s = time.monotonic() if due_s is None else due_s
        status = 0
        connection = http.client.HTTPConnection("127.0.0.1", self.elsewhere.get(path, self.port), timeout=40)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            self.bodies.append(answer.read())
            status = answer.status
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        self.seen.append(Seen(path, status, time.monotonic() - began_s))

    def kept(self, path: str, seconds: float, pause_s: float = 0.0) -> None:
        """A closed loop on one connection that is kept."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)
        end_s = time.monotonic() + seconds
        while (began_s := time.monotonic()) < end_s:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            self.seen.append(Seen(path, answer.status, time.monotonic() - began_s))
            time.sleep(pause_s)
        connection.close()

    def forgotten(self, path: str) -> None:
        """One request whose answer nobody waits for."""
        threading.Thread(target=self.ask, args=(path,), daemon=True).start()

    def idle(self, path: str, seconds: float) -> None:
        """One request on a connection that is then kept for so long, unused."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)
        connection.request("GET", path)
        connection.getresponse().read()
        time.sleep(seconds)
        connection.close()

    def upload(self, path: str, seconds: float) -> None:
        """A body that arrives piece by piece, for so long."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", "10")
        connection.endheaders()
        for _ in range(10):
            connection.send(b"x")
            time.sleep(seconds / 10)
        connection.getresponse().read()
        connection.close()

    def silent(self, seconds: float) -> None:
        """A connection on which nothing is asked, for so long."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=40):
            time.sleep(seconds)

    def at_once(self, *paths: str) -> None:
        """All of them at the same time."""
        together(*(lambda path=path: self.ask(path) for path in paths))

    def paced(self, path: str | Callable[[int], str], per_s: float, seconds: float) -> None:
        """An open loop: one request every 1/`per_s` s, whether or not earlier ones were answered."""
        began_s = time.monotonic()
        threads = []
        for number in range(round(per_s * seconds)):
            due_s = began_s + number / per_s
            time.sleep(max(0.0, due_s - time.monotonic()))
            where = path if isinstance(path, str) else path(number)
            threads.append(threading.Thread(target=self.ask, args=(where, due_s), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def loops(self, path: str, clients: int, seconds: float) -> None:
        """A closed loop of this many clients, each on a connection that it keeps."""
        together(*[lambda: self.kept(path, seconds)] * clients)

    def of(self, path: str) -> list[float]:
        """Seconds that answered requests of this path took, ascending."""
        return sorted(one.seconds for one in self.seen if one.path.startswith(path) and one.status == 200)

    def share(self, path: str, quantile: float) -> float:
        """That quantile of them, in seconds."""
        found = self.of(path)
        return found[min(len(found) - 1, int(quantile * len(found)))]


def together(*calls: Callable[[], None]) -> None:
    """Runs them at the same time, each on a thread, until all have ended."""
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def after(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """The call, so much later."""

    def later() -> None:
        time.sleep(seconds)
        call()

    return later


def repeated(every_s: float, times: int, call: Callable[[], None]) -> Callable[[], None]:
    """The call again and again."""

    def again() -> None:
        for _ in range(times):
            time.sleep(every_s)
            call()

    return again


def sent(clients: Clients) -> Sequence[Seen]:
    """Those that were answered well."""
    return [one for one in clients.seen if one.status == 200]
