"""`make programs`: five public programs on seven servers under `greenlane record`. Is each request a job, and how long?

    python -m tests.ecosystem.programs [--program httpbin] [--server waitress] [--rounds 3] [--tries 3] [--verbose]

Each program of programs.toml is served by each server that can carry it, unchanged, and gets the same requests on new
connections, on one that is kept and rests for a while, pipelined (five in one write), and on four connections beside
each other. The client's clock runs from before it writes a request until the kernel has the last byte of its answer.

A latency is right within 5 % or 2 ms of the client's. Where it is not, its begin or its end is off, and the line names
the worst. A pair fails if jobs are missing, if an arrival is outside of the bound, or if most of the requests on one
kind of connection are. An arrival that is said to be unknown ("handler") is counted beside. An end is off by some ms
where the server has no core after its answer, or its application goes on: on a busy machine that can be most of them.

What fails is asked again, `--tries` times at most. Exit code: 0 no pair has failed, 1 one has, 2 usage.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from greenlane_tools.reader import Job, open_recording
from tests.child import Child, free_port
from tests.ecosystem.environment import CACHE, HERE, python
from tests.where import IMPORT_PATH

_GREENLANE: Final = (sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")
_RIGHT_FRAC: Final = 0.05
_RIGHT_NS: Final = 2_000_000
#: Kinds of connections.
HOWS: Final = ("first", "new", "kept", "pipelined", "beside")
#: Between two requests of the kept connection, once a round.
_IDLE_S: Final = 0.4
_LIMIT_S: Final = 30
_BESIDE: Final = 4
#: Linux: `socket` has no name for it.
_SO_TIMESTAMPNS: Final = 35

_GEVENT: Final = (
    "from gevent import monkey; monkey.patch_all(); import sys; from gevent.pywsgi import WSGIServer;"
    " from served import application;"
    " WSGIServer(('127.0.0.1', int(sys.argv[1])), application, log=None).serve_forever()"
)
_TORNADO: Final = (
    "import sys, asyncio; from tornado.httpserver import HTTPServer; from tornado.wsgi import WSGIContainer;"
    " from served import application\n"
    "async def main():\n"
    "    HTTPServer(WSGIContainer(application)).listen(int(sys.argv[1]), '127.0.0.1')\n"
    "    await asyncio.Event().wait()\n"
    "asyncio.run(main())"
)
#: Server -> interface -> how it is started, with {port}. The application is `served:application`.
SERVERS: Final[dict[str, dict[str, list[str]]]] = {
    "waitress": {"wsgi": ["-m", "waitress", "--listen=127.0.0.1:{port}", "served:application"]},
    "cheroot": {"wsgi": ["-m", "cheroot", "--bind", "127.0.0.1:{port}", "served:application"]},
    "gevent.pywsgi": {"wsgi": ["-c", _GEVENT, "{port}"]},
    "tornado": {
        "wsgi": ["-c", _TORNADO, "{port}"],
        "tornado": ["-m", "celery", "-A", "served", "flower", "--address=127.0.0.1", "--port={port}"],
    },
    "hypercorn": {
        kind: ["-m", "hypercorn", "--bind", "127.0.0.1:{port}", f"{kind}:served:application"]
        for kind in ("asgi", "wsgi")
    },
    "daphne": {"asgi": ["-m", "daphne", "-b", "127.0.0.1", "-p", "{port}", "served:application"]},
    "granian": {
        kind: ["-m", "granian", "--interface", kind, "--host", "127.0.0.1", "--port", "{port}", "served:application"]
        for kind in ("asgi", "wsgi")
    },
}
#: What makes the other interface of `application`: in front of a program that has one only.
_ADAPTERS: Final = {
    "asgi": "from a2wsgi import WSGIMiddleware\napplication = WSGIMiddleware(application)\n",
    "wsgi": "from a2wsgi import ASGIMiddleware\napplication = ASGIMiddleware(application)\n",
}
#: Pairs that make no sense, and why.
SENSELESS: Final = {
    ("kinto", "tornado"): "tornado refuses the space at the end of a header of Kinto's",
    (
        "wagtail",
        "tornado",
    ): "Django's ORM refuses a thread with an asyncio loop; tornado refuses a space before a cookie",
    ("datasette", "gevent.pywsgi"): "an asyncio loop on a patched thread",
    ("datasette", "tornado"): "an asyncio loop that an asyncio loop waits for",
}


@dataclass
class Asked:
    """One request: what is sent, and when."""

    method: str
    text: bytes
    how: str
    sent_ns: int = 0
    got_ns: int = 0
    status: int = 0
    #: The job that is taken for it.
    job: Job | None = None

    @property
    def latency_ns(self) -> int:
        """By the client's clock."""
        return self.got_ns - self.sent_ns

    @property
    def begin_ns(self) -> int:
        """By how much it arrived later than it was sent, as recorded."""
        return self.job.arrival_ns - self.sent_ns if self.job else -self.latency_ns

    @property
    def end_ns(self) -> int:
        """By how much it ended later than the client had its answer, as recorded."""
        return self.job.end_ns - self.got_ns if self.job else 0

    @property
    def off_ns(self) -> int:
        """By how much the recorded latency is longer."""
        return self.end_ns - self.begin_ns

    @property
    def is_unknown(self) -> bool:
        """Whether the recording says that nobody knows when it arrived."""
        return self.job is not None and self.job.clock == "handler"

    def __str__(self) -> str:
        target = self.text.split(b" ", 2)[1].decode()
        off = f"{self.begin_ns / 1e6:+.2f}, {self.end_ns / 1e6:+.2f} ms" if self.job else "no job"
        return f"{off} of {self.latency_ns / 1e6:.2f} ({self.how}, {self.method} {target})"

    def is_within(self, off_ns: int) -> bool:
        """Whether so much is within the bound."""
        return abs(off_ns) <= max(_RIGHT_NS, _RIGHT_FRAC * self.latency_ns)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all pairs that are asked for; give the exit code."""
    with (HERE / "programs.toml").open("rb") as stream:
        programs = tomllib.load(stream)
    parser = argparse.ArgumentParser(prog="make programs", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--program", action="append", choices=list(programs))
    parser.add_argument("--server", action="append", choices=list(SERVERS))
    parser.add_argument("--rounds", type=int, default=3, help="of all requests, on each kind of connection (3)")
    parser.add_argument("--verbose", action="store_true", help="print each request that is outside of the bound")
    parser.add_argument("--tries", type=int, default=3, help="of a pair with a latency outside of the bound (3)")
    asked = parser.parse_args(arguments)
    interpreter = python(lambda text: print(text, file=sys.stderr), HERE / "programs.txt")
    head = f"{'program':<11}{'server':<15}{'as':<15}{'sent':>5}{'jobs':>6}  {'clock':<15}"
    print(f"{head}{'outside':>12}{'unknown':>9}  worst: begin, end")
    failed = 0
    for program in asked.program or programs:
        native = [
            name for name, offered in SERVERS.items() if programs[program].keys() & offered.keys() - {"asgi", "wsgi"}
        ]
        for server in asked.server or native or SERVERS:
            if (program, server) in SENSELESS:
                print(f"{program:<11}{server:<15}not tried: {SENSELESS[program, server]}")
                continue
            pair = Pair(program, programs[program], server, interpreter)
            for _ in range(asked.tries):
                line, is_right = pair.run(asked.rounds)
                if is_right:
                    break
            failed += not is_right
            print(f"{line}{'' if is_right else '  FAILED'}", flush=True)
            for each in pair.outside if asked.verbose else ():
                print(f"    {each}")
    print(f"{'no pair' if not failed else f'{failed} pairs'} failed")
    return 1 if failed else 0


class Pair:
    """One program on one server."""

    def __init__(self, name: str, table: dict[str, Any], server: str, interpreter: Path) -> None:
        self._name, self._server, self._table, self._interpreter = name, server, table, interpreter
        offered = SERVERS[server]
        #: Its own interface where it has one that the server takes, asynchronous first.
        own = [kind for kind in ("tornado", "asgi", "wsgi") if kind in table and kind in offered]
        self._kind = own[0] if own else next(iter(offered))
        self._is_adapted = not own
        #: Of the last run, whose latency is off.
        self.outside: list[Asked] = []

    def run(self, rounds: int) -> tuple[str, bool]:
        """Serve it, ask, and compare: a line of the table, and whether all is right."""
        with tempfile.TemporaryDirectory(prefix="greenlane-programs-") as made:
            folder = Path(made)
            self._prepare(folder)
            port = free_port()
            words = [word.replace("{port}", str(port)) for word in SERVERS[self._server][self._kind]]
            command = [*_GREENLANE, "record", "-o", "r.glr", "--", str(self._interpreter), *words]
            env = {"PYTHONPATH": IMPORT_PATH, "GREENLANE_CONFIG": "", "PYTHONWARNINGS": "ignore"}
            with Child(command, cwd=folder, env=env) as child:
                child.wait_port(port, timeout_s=_LIMIT_S)
                try:
                    sent = self._ask(port, rounds)
                except (OSError, EOFError) as error:
                    print(child.output[-4000:], file=sys.stderr)
                    return self._line(f"asking failed: {error!r}"), False
                child.signal(signal.SIGTERM)
                child.wait_exit(timeout_s=_LIMIT_S)
                output = child.output
            try:
                jobs = list(open_recording(folder / "r.glr").jobs)
            except Exception as error:  # whatever there is to read: the line says it, the table goes on
                return self._line(f"{error}".splitlines()[0] + output[-300:]), False
        return self._compared(sent, jobs)

    def _prepare(self, folder: Path) -> None:
        """Fill `folder` with what the program needs, which is made once."""
        made = CACHE / "programs" / self._name
        if self._table.get("prepare") and not (made / "made").exists():
            made.mkdir(parents=True, exist_ok=True)
            subprocess.run([self._interpreter, "-c", self._table["prepare"]], cwd=made, check=True)
            (made / "made").touch()
        if made.exists():
            subprocess.run(["cp", "-a", f"{made}/.", str(folder)], check=True)
        source = self._table.get(self._kind) or self._table["wsgi" if self._kind == "asgi" else "asgi"]
        # Programs look for their files beside them, or where they run.
        source += "\n" + (_ADAPTERS[self._kind] if self._is_adapted else "")
        (folder / "served.py").write_text(f"import sys\nsys.path.insert(0, {str(folder)!r})\n{source}")

    def _ask(self, port: int, rounds: int) -> list[Asked]:
        again = self._table["again"]
        bare = [each for each in again if isinstance(each, str) or not each[1]]
        sent: list[Asked] = []
        for each in self._table["first"]:
            sent += _on(port, [_asked(each, "first")])
        for _ in range(rounds):
            for each in again:
                sent += _on(port, [_asked(each, "new")])
            sent += _on(port, [_asked(each, "kept") for each in again], idle_after=2)
            sent += _on(port, [_asked(bare[number % len(bare)], "pipelined") for number in range(5)], at_once=True)
        with ThreadPoolExecutor(_BESIDE) as pool:
            beside = [[_asked(each, "beside") for each in again * rounds] for _ in range(_BESIDE)]
            for part in pool.map(lambda part: _on(port, part), beside):
                sent += part
        return sent

    def _compared(self, sent: list[Asked], jobs: list[Job]) -> tuple[str, bool]:
        _match(sent, jobs)
        self.outside = outside = [each for each in sent if not each.is_within(each.off_ns)]
        false = [each for each in sent if not (each.is_unknown or each.is_within(each.begin_ns))]
        unknown = [each for each in sent if each.is_unknown and not each.is_within(each.begin_ns)]
        known = [each for each in outside if not each.is_unknown]
        most = [how for how in HOWS[1:] if 2 * _count(known, how) > _count(sent, how)]
        worst = max(sent, key=lambda each: abs(each.off_ns) / max(_RIGHT_NS, _RIGHT_FRAC * each.latency_ns))
        clocks = ",".join(sorted({job.clock for job in jobs}))
        said = f"{len(sent):>5}{len(jobs):>6}  {clocks:<15}{len(outside):>4} of {len(sent):>4}{len(unknown):>9}"
        wrong = [f"{len(jobs) - len(sent):+d} jobs"] if len(jobs) != len(sent) else []
        wrong += [f"arrival {each}" for each in false] + [f"most of {how}" for how in most]
        return self._line(f"{said}  {worst}{''.join(f'; {each}' for each in wrong)}"), not wrong

    def _line(self, rest: str) -> str:
        through = f"{self._kind}, adapted" if self._is_adapted else self._kind
        return f"{self._name:<11}{self._server:<15}{through:<15}{rest}"


def _asked(given: str | list[str], how: str) -> Asked:
    line, body, *headers = [given, ""] if isinstance(given, str) else [*given]
    method, _, target = line.partition(" ")
    head = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", *headers]
    content = body.replace("\n", "\r\n").encode()
    if content:
        head.append(f"Content-Length: {len(content)}")
    return Asked(method, "\r\n".join([*head, "", ""]).encode() + content, how)


def _match(sent: list[Asked], jobs: list[Job]) -> None:
    """Find the job of each request: by their order, and of those beside each other the one that is nearest."""
    one_by_one = [each for each in sent if each.how != "beside"]
    in_order = sorted(jobs, key=lambda job: job.handler_ns)
    for each, job in zip(one_by_one, in_order, strict=False):
        each.job = job
    beside, left = sent[len(one_by_one) :], in_order[len(one_by_one) :]
    pairs = sorted(
        (abs(each.got_ns - job.end_ns) + abs(each.sent_ns - job.arrival_ns), at, number)
        for at, each in enumerate(beside)
        for number, job in enumerate(left)
        if (each.method, each.status) == (job.route.split()[0], job.status)
    )
    taken: set[int] = set()
    for _, at, number in pairs:
        if beside[at].job is None and number not in taken:
            beside[at].job = left[number]
            taken.add(number)


def _count(asked: list[Asked], how: str) -> int:
    return sum(each.how == how for each in asked)


# --- the client -------------------------------------------------------------------------------------------------------


def _on(port: int, asked: list[Asked], *, at_once: bool = False, idle_after: int = 0) -> list[Asked]:
    """Ask on one connection, behind each other or in one write. A server may close it: the rest is asked on another."""
    left = list(asked)
    while left:
        with contextlib.closing(_Connection(port)) as connection:
            if at_once:
                connection.write(left, b"".join(each.text for each in left))
            while left and not connection.is_over:
                if not at_once:
                    if idle_after and len(asked) - len(left) == idle_after:
                        time.sleep(_IDLE_S)
                    connection.write(left[:1], left[0].text)
                connection.read(left.pop(0))
    return asked


class _Connection:
    """One connection: what it reads is stamped by the kernel."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._bytes = b""
        self._came_ns = 0
        self.is_over = False

    def close(self) -> None:
        self._socket.close()

    def write(self, asked: Sequence[Asked], text: bytes) -> None:
        now_ns = time.monotonic_ns()
        for each in asked:
            each.sent_ns = now_ns
        self._socket.sendall(text)

    def read(self, asked: Asked) -> None:
        """Read one whole answer."""
        while b"\r\n\r\n" not in self._bytes:
            self._more()
        head, _, self._bytes = self._bytes.partition(b"\r\n\r\n")
        asked.status = int(head.split(b" ", 2)[1])
        if asked.status == 100:
            return self.read(asked)
        self.is_over = bool(re.search(rb"(?im)^connection:\s*close", head)) or head.startswith(b"HTTP/1.0")
        length = re.search(rb"(?im)^content-length:\s*(\d+)", head)
        if asked.method == "HEAD" or asked.status in (204, 304):
            pass
        elif re.search(rb"(?im)^transfer-encoding:\s*chunked", head):
            for _ in self._chunks():
                pass
        elif length:
            self._take(int(length[1]))
        else:
            self.is_over = True
            with contextlib.suppress(EOFError):
                while True:
                    self._more()
        asked.got_ns = self._came_ns

    def _chunks(self) -> Iterator[bytes]:
        size = 1
        while size:
            while b"\r\n" not in self._bytes:
                self._more()
            line, _, self._bytes = self._bytes.partition(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            yield self._take(size + 2)

    def _take(self, length: int) -> bytes:
        while len(self._bytes) < length:
            self._more(length - len(self._bytes))
        taken, self._bytes = self._bytes[:length], self._bytes[length:]
        return taken

    def _more(self, most_bytes: int = 256) -> None:
        # A stamp is of the last segment that a read gives: no more is read than is wanted, the next answer may follow.
        # A server that waits for our acknowledgement (Nagle's algorithm) gets it now, and not 40 ms later.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        piece, control, *_ = self._socket.recvmsg(most_bytes, 64)
        now_ns, real_ns = time.monotonic_ns(), time.time_ns()
        if not piece:
            raise EOFError("the server has closed the connection")
        self._bytes += piece
        self._came_ns = now_ns
        for level, kind, content in control:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, ns = struct.unpack("qq", content)
                self._came_ns = min(now_ns, now_ns - real_ns + seconds * 10**9 + ns)


if __name__ == "__main__":
    sys.exit(main())
