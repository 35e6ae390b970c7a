"""HAProxy's runtime socket: what is changed while it runs, and its counters.

One connection a command: the far side closes after its answer. Blocks for some 0.1 ms; HAProxy answers between two
requests.
"""

from __future__ import annotations

import csv
import io
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from greenlane.errors import ServeError

#: What a ServeError names when the socket does not answer.
RUNTIME_SOCKET: Final = "runtime socket"

_ANSWER_S: Final = 5.0
_READ_BYTES: Final = 65536
_PIECE: Final = 8000
# A key of a map of expressions on method and path, which are never empty.
_MATCHES_NOTHING: Final = "^$"
# A stream of `show sess` whose client takes nothing more at the moment: the time-out of its writing runs. It is in
# another place since 2.8.
_BLOCKED: Final = re.compile(r"(0x\w+): .* fe=(\S+) .*(?: rp\[[^]]*,wx=\w| scf=\[[^]]*,wex=\w)")


@dataclass(frozen=True)
class Row:
    """One line of the counters: a server, or a backend as a whole (`server` "BACKEND")."""

    backend: str
    server: str
    # "UP", "no check" (it serves, nobody asks), "MAINT", "DOWN" …
    status: str
    # Requests in progress; waiting for this server; its limit (0 = none).
    current: int
    queued: int
    at_once: int
    # Since the start: requests, answers by first digit of the status, attempts repeated, requests sent elsewhere.
    requests: int
    answers: tuple[int, int, int, int, int]
    retries: int
    redispatches: int
    connection_errors: int
    answer_errors: int
    # Means of the last 1024 requests, in ms: in the queue, until the first byte of the answer, all of it.
    queue_ms: int
    answer_ms: int
    total_ms: int


class Stream(NamedTuple):
    """One request of a client, or one WebSocket."""

    # Where HAProxy has it: another one's later. And its number, which never comes again.
    address: str
    number: str


class Runtime:
    """The interface at a Unix socket.

    Every method raises ServeError when the socket does not answer or the command is refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Backends whose servers have the state of another one's: they are the same workers.
        self.twins: Mapping[str, str] = {}

    def set_at_once(self, backend: str, server: str, number: int) -> None:
        """Most requests that a server gets at once. Takes effect now; waiting requests are served if there is room."""
        self._do(f"set maxconn server {backend}/{server} {number}")

    def enable(self, backend: str, server: str) -> None:
        """Give a server requests."""
        self._set_state(backend, server, "ready")

    def disable(self, backend: str, server: str) -> None:
        """Give a server nothing new, and close idle connections to it. What is in progress goes on."""
        self._set_state(backend, server, "maint")

    def rows(self, backend: str | None = None, server: str | None = None) -> list[Row]:
        """Counters, of one backend or server if named. Cost: some 0.1 ms and 10 us a server."""
        text = self.ask("show stat")
        table = csv.DictReader(io.StringIO(text.removeprefix("# ")))
        return [
            _row(line) for line in table
            if line["svname"] != "FRONTEND" and backend in (None, line["pxname"]) and server in (None, line["svname"])
        ]  # fmt: skip

    def loads(self) -> dict[str, int]:
        """Of each backend, requests that its servers have. Cost: some 50 us."""
        lines = [line.split(",", 5) for line in self.ask("show stat -1 2 -1").splitlines() if line[:1] not in ("#", "")]
        return {line[0]: int(line[4]) - int(line[2]) for line in lines}  # all of it, less what waits

    def in_progress(self, backend: str, server: str) -> int:
        """Requests that a server has."""
        return sum(row.current for row in self.rows(backend, server))

    def close(self, frontend: str) -> None:
        """Listen there no longer; connections stay."""
        self._do(f"shutdown frontend {frontend}")

    def idle(self) -> bool:
        """Whether no request is in progress: connections between two requests have no stream."""
        streams = [line for line in self.ask("show sess").splitlines() if line.startswith("0x")]
        return all(" fe=GLOBAL " in line for line in streams)

    def unread(self, frontend: str) -> dict[Stream, int]:
        """Streams whose client does not take at once what there is for it, and how many bytes it has taken.

        What waits for a server, or has nothing to say, is not among them. Cost: 4 us of the front for each request in
        progress, 50 us for each of these.
        """
        blocked = [found[1] for line in self.ask("show sess").splitlines()
                   if (found := _BLOCKED.match(line)) and found[2] == frontend]  # fmt: skip
        unread: dict[Stream, int] = {}
        for piece in _pieces([f"show sess {one};" for one in blocked]):
            for dump in re.split(r"^(?=0x)", self.ask(piece.replace("\n", " ")), flags=re.MULTILINE):
                head = re.match(r"(0x\w+): .* id=(\d+) ", dump)
                if head and (taken := _taken(dump)) is not None:
                    unread[Stream(head[1], head[2])] = taken
        return unread

    def end(self, stream: Stream) -> None:
        """Close the client's connection, or its stream of HTTP/2. Nothing if it has ended."""
        self.ask(f"shutdown session {stream.address}")

    def pid(self) -> int:
        """Process id of the HAProxy that answers; 0 = it does not say."""
        found = re.search(r"^Pid: (\d+)$", self.ask("show info"), re.MULTILINE)
        return int(found[1]) if found else 0

    def lost_lines(self) -> int:
        """Lines of the access log lost to a slow reader since the front started."""
        found = re.search(r"^DroppedLogs: (\d+)$", self.ask("show info"), re.MULTILINE)
        return int(found[1]) if found else 0

    def replace_map(self, path: Path, lines: Sequence[str], *, attempted: str) -> None:
        """Let the front go over to another map between two requests.

        Args:
            attempted: for messages.
        """
        said = self.ask(f"prepare map {path}")
        version = re.search(r"version created: (\d+)", said)
        if version is None:
            rule = f"a front that has routes; it says: {said.strip() or 'nothing'}"
            raise ServeError(attempted, name="map", value=str(path), rule=rule)
        adds = [f"add map @{version[1]} {path} <<\n{some}" for some in _pieces(lines)]
        # HAProxy remembers a map's answers until a row is added. What it is asked between these rows and the commit
        # it would answer from the map before, for as long as it is asked: so a row that matches nothing comes and goes.
        fresh = (f"add map {path} {_MATCHES_NOTHING} /", f"del map {path} {_MATCHES_NOTHING}")
        for command in (*adds, f"commit map @{version[1]} {path}", *fresh):
            if said := self.ask(command).strip():
                rule = f"one that the front accepts; it says: {said}"
                raise ServeError(attempted, name="command", value=command.partition("\n")[0], rule=rule)

    def ask(self, command: str) -> str:
        """The answer to a command."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_ANSWER_S)
                connection.connect(str(self.path))
                connection.sendall(command.encode() + b"\n")
                pieces = []
                while piece := connection.recv(_READ_BYTES):
                    pieces.append(piece)
        except OSError as error:
            raise ServeError(
                "talk to the front", name=RUNTIME_SOCKET, value=str(self.path),
                rule=f"one on which HAProxy answers ({error.strerror or error})",
                hint="see in the log whether HAProxy has ended; `greenlane serve` starts it again",
            ) from None  # fmt: skip
        return b"".join(pieces).decode(errors="replace")

    def _set_state(self, backend: str, server: str, state: str) -> None:
        self._do(f"set server {backend}/{server} state {state}")
        if twin := self.twins.get(backend):
            self._do(f"set server {twin}/{server} state {state}")

    def _do(self, command: str) -> None:
        """A command that answers nothing when it is well, or a line that begins with what has changed."""
        answer = self.ask(command).strip()
        if answer and not answer.startswith("["):
            raise ServeError(
                "change the front", name="command", value=command, rule=f"one it accepts; it says: {answer}"
            )


def _pieces(lines: Sequence[str]) -> Iterator[str]:
    """HAProxy takes no command that is larger than its buffer of 16 KB."""
    piece = ""
    for line in lines:
        if piece and len(piece) + len(line) > _PIECE:
            yield piece
            piece = ""
        piece += f"{line}\n"
    if piece:
        yield piece


def _taken(dump: str) -> int | None:
    """What the client of a stream has taken; None = there is nothing for it.

    Since 3.4 HAProxy counts it. Before, it is what came from the server less what still waits. In 2.6 alone a
    WebSocket on which nobody has spoken looks blocked although nothing waits.
    """
    if told := re.search(r"^ +scf=.* out=(\d+)", dump, re.MULTILINE):
        return int(told[1])
    answer = re.search(r"^ +res=.* total=(\d+)\)\s+an_exp=\S+( rex=)?.*? o=(\d+) ", dump, re.MULTILINE | re.DOTALL)
    if answer is None or (answer[2] and answer[3] == "0"):
        return None
    return int(answer[1]) - int(answer[3])


def _row(line: dict[str, str]) -> Row:
    def number(key: str) -> int:
        return int(line.get(key) or 0)

    return Row(
        backend=line["pxname"], server=line["svname"], status=line["status"], current=number("scur"),
        queued=number("qcur"), at_once=number("slim"), requests=number("stot"),
        answers=(number("hrsp_1xx"), number("hrsp_2xx"), number("hrsp_3xx"), number("hrsp_4xx"), number("hrsp_5xx")),
        retries=number("wretr"), redispatches=number("wredis"), connection_errors=number("econ"),
        answer_errors=number("eresp"), queue_ms=number("qtime"), answer_ms=number("rtime"), total_ms=number("ttime"),
    )  # fmt: skip
