"""What a client sends byte by byte, what the front logs of it, and what a worker sees."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from tests.serve.corpus import Reading
from tests.serve.served import Served, until

#: Of workers.
KINDS = ("wsgi", "asgi")
SETTINGS = """
workers = 2
at_once = 4
head_timeout_s = 0.6
body_timeout_s = 0.6
body_bytes_per_s = 100_000
body_max_mb = 0.1
access_log = "stdout"
request_id_header = "x-request-id"
"""
# Messages at once: those that wait for a time-out wait together.
_AT_ONCE = 64
# Messages whose log fits a pipe: HAProxy loses a line rather than wait for the reader.
_PART = 100
STATUS = re.compile(rb"HTTP/1\.\d (\d{3})")


@dataclass(frozen=True)
class Outcome:
    """Of one message."""

    # Statuses that the client got.
    statuses: tuple[str, ...]
    # What workers saw, in the order of the front; a body that broke off is b"!".
    reading: Reading


def talk(port: int, *pieces: bytes, pause_s: float = 0.0, source: str = "127.0.0.1") -> bytes:
    """Send the pieces on a connection of its own and read until it ends; what came.

    With pauses between the pieces only until the first answer.
    """
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0)) as sock:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                sock.sendall(piece)
                if pause_s:
                    sock.settimeout(pause_s)
                    with contextlib.suppress(TimeoutError):
                        return sock.recv(65536)
                    sock.settimeout(30)
            while came := sock.recv(65536):
                received += came
    return received


def outcomes(served: Served, messages: Iterable[bytes]) -> list[Outcome]:
    """Send each message on a connection of its own, and hold that nothing reached a worker past the front.

    Every request that a worker saw has an id that the front gave to a request with the same method, target and host;
    none has an id twice; and a request of somebody else gets its own answer all the while.
    """
    waiting = list(messages)
    found: list[Outcome] = []
    while waiting:
        part, waiting = waiting[:_PART], waiting[_PART:]
        found += _outcomes(served, part)
    return found


def _outcomes(served: Served, messages: list[bytes]) -> list[Outcome]:
    before = len(records(served))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        sent = {address(one): message for one, message in enumerate(messages)}
        talked = {source: pool.submit(talk, served.port, sent[source], source=source) for source in sent}
        for number in range(20):
            bystander(served, f"/bystander?{number}")
        done = {source: one.result() for source, one in talked.items()}
    bystander(served, "/bystander?last")
    seen = records(served)[before:]
    lines = _logged(served, seen)
    given = {line["id"]: line for line in lines}
    assert len({one["id"] for one in seen}) == len(seen), "one request, seen twice"
    for one in seen:
        line = given[one["id"]]
        assert (line["method"], _decoded(line["target"])) == (one["method"], one["target"])
        assert _plain(line["host"]) == (_plain(one["host"]) or "-"), (line, one)
        assert one["client"] == [line["client"], "http", ""]
        assert "forged" not in " ".join(one["headers"].get(name, "") for name in FRONTS)
    theirs: dict[str, list[dict[str, Any]]] = {source: [] for source in done}
    by_id = {one["id"]: one for one in seen}
    for line in lines:
        if line["client"] in theirs and line["id"] in by_id:
            theirs[line["client"]].append(by_id[line["id"]])
    return [
        Outcome(
            tuple(status.decode() for status in STATUS.findall(received)),
            tuple(request(one) for one in theirs[source]),
        )
        for source, received in done.items()
    ]  # fmt: skip


def _logged(served: Served, seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The log, once it has all of these requests, or has lost some."""
    wanted = {one["id"] for one in seen}

    def missing() -> set[str]:
        return wanted - {line["id"] for line in log(served)}

    with contextlib.suppress(AssertionError):
        until(lambda: not missing(), timeout_s=10)
    unknown = [one for one in seen if one["id"] in missing()]
    lost = re.search(r"DroppedLogs: (\d+)", served.runtime.ask("show info"))
    assert not unknown, f"unknown to the front, whose log has lost {lost and lost[1]} lines: {unknown[:3]}"
    return log(served)


def address(number: int) -> str:
    """A client's address of its own for each message: ports come again."""
    return f"127.{1 + number // 60_000}.{number % 60_000 // 250}.{1 + number % 250}"


#: What only the front says.
FRONTS = ("x-greenlane-lane", "x-request-id", "x-forwarded-proto", "x-forwarded-for", "script-name")


class Filed(Protocol):
    """Whose application writes into a folder what it sees."""

    folder: Path


def bystander(served: Served, target: str) -> None:
    """A request of somebody else: it gets its own answer."""
    assert served.get(target).endswith(f" {target}")


def records(served: Filed) -> list[dict[str, Any]]:
    """What the workers saw so far."""
    file = served.folder / "seen"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def log(served: Served) -> list[dict[str, Any]]:
    """The access log so far."""
    lines = []
    for line in served.process.output.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(ValueError):  # one longer than a pipe takes at once may be mixed with another
                lines.append(json.loads(line))
    return lines


def _plain(text: str) -> str:
    """What the log keeps of a header."""
    return text.encode("ascii", "ignore").decode()[:256]


def _decoded(target: str) -> str:
    path, mark, query = target.partition("?")
    return unquote(path) + mark + query


def request(one: dict[str, Any]) -> tuple[str, str, bytes]:
    return one["method"], one["target"], one["body"].encode("latin-1") if one["whole"] else b"!"
