"""Clients of what is measured here: requests at given moments, each on its own connection, and who answered.

`held` connections stay open after their answer until all are answered, as a proxy's pool keeps them.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Answer", "asked", "connected", "kept"]

_READ: Final = 65_536


@dataclass(frozen=True)
class Answer:
    """One request's outcome."""

    # Process id of who answered; 0 = no answer.
    worker: int
    # From the moment it was due, seconds; of one without answer how long it was waited for.
    seconds: float


class _Connection:
    """A connection with at most one request under way."""

    def __init__(self, address: str) -> None:
        self.socket = connected(address)
        self.due_s = 0.0
        # The server ends it with its answer. A client that would not close then holds a sync worker of gunicorn 27.
        self.closing = False
        self._read = b""

    def ask(self, path: str, due_s: float) -> None:
        self.due_s, self._read = due_s, b""
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: lab\r\n\r\n".encode())

    def read(self) -> Answer | None:
        """Reads once: the answer when it is whole or the connection is over, None = not yet."""
        try:
            part = self.socket.recv(_READ)
        except OSError:
            part = b""
        self._read += part
        head, found, body = self._read.partition(b"\r\n\r\n")
        if part and not (found and len(body) >= 2):
            return None
        self.closing = not part or b"\r\nconnection: close" in head.lower()
        return self.answer(_worker(head) if found else 0)

    def answer(self, worker: int) -> Answer:
        return Answer(worker, time.monotonic() - self.due_s)


def asked(
    address: str, path: str, due_s: Sequence[float], *, held: bool = False, timeout_s: float = 10.0
) -> list[Answer]:
    """A request on a new connection at each of these moments, whether or not others are answered: an open loop.

    Args:
        due_s: seconds from now, ascending; equal ones are a burst.
        held: connections stay open until all are answered.
        timeout_s: how long is waited after the last was sent.
    """
    began_s = time.monotonic()
    found: list[Answer] = []
    waiting: list[_Connection] = []
    open_ones: list[_Connection] = []
    with selectors.DefaultSelector() as selector:
        for at_s in due_s:
            while (left_s := began_s + at_s - time.monotonic()) > 0:
                found += _look(selector, left_s, waiting, held=held)
            one = _Connection(address)
            one.ask(path, began_s + at_s)
            waiting.append(one)
            open_ones += [one] if held else []
            selector.register(one.socket, selectors.EVENT_READ, one)
        until_s = time.monotonic() + timeout_s
        while waiting and time.monotonic() < until_s:
            found += _look(selector, 0.05, waiting, held=held)
    for one in [*waiting, *open_ones]:
        one.socket.close()
    return found + [one.answer(0) for one in waiting]


def kept(address: str, path: str, clients: int, requests: int) -> list[Answer]:
    """`clients` that keep a connection each and ask `requests` times in turns; where the server closes, a new one."""
    found = []
    connections: list[_Connection | None] = [None] * clients
    for _ in range(requests):
        for number in range(clients):
            one, answer = _one_more(address, path, connections[number])
            found.append(answer)
            if one.closing:
                one.socket.close()
            connections[number] = None if one.closing else one
    for left in connections:
        if left is not None:
            left.socket.close()
    return found


def connected(address: str) -> socket.socket:
    """A connection to "host:port" or "unix:/path"; OSError when nobody listens."""
    if not address.startswith("unix:"):
        host, _, port = address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=5)
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(5)
    try:
        made.connect(address.removeprefix("unix:"))
    except OSError:
        made.close()
        raise
    return made


def _one_more(address: str, path: str, kept_one: _Connection | None) -> tuple[_Connection, Answer]:
    if kept_one is not None:
        answer = _asked_on(kept_one, path)
        if answer.worker:
            return kept_one, answer
        kept_one.socket.close()
    one = _Connection(address)
    return one, _asked_on(one, path)


def _asked_on(one: _Connection, path: str) -> Answer:
    try:
        one.ask(path, time.monotonic())
    except OSError:
        return one.answer(0)
    while (answer := one.read()) is None:
        continue
    return answer


def _look(
    selector: selectors.BaseSelector, left_s: float, waiting: list[_Connection], *, held: bool
) -> list[Answer]:
    if not waiting:
        time.sleep(min(left_s, 0.05))
        return []
    found = []
    for key, _ in selector.select(left_s):
        one: _Connection = key.data
        answer = one.read()
        if answer is None:
            continue
        found.append(answer)
        selector.unregister(one.socket)
        waiting.remove(one)
        if not held or one.closing:
            one.socket.close()
    return found


def _worker(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"x-worker":
            return int(value)
    return 0
