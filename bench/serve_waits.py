"""Health beside requests that only wait: `greenlane serve` beside gunicorn's threads (gthread, 64).

    python -m bench.serve_waits --load wait8 [--seconds S] [--rounds N] [--kind wsgi|asgi] [--source FOLDER ...]

Question: does the application's own /health ever queue, or is anybody refused, while requests only wait, the service
starts, reloads, or changes from waiting to computing? Expected: no, as under gthread with 64 threads.

Two workers each, on two cores; ten probes a second, each on a new connection, timed from when it should be sent; an
open loop beside them. A row has the probes of the first 15 s, one those after, one all: median and p99 in ms, refused
probes, and refused requests of the load. `unanswered`: it still waits a second after the end. `--source`: packages of
another checkout that serves, interleaved with this one. It does not show a network, nor more cores.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from greenlane_tools.lab import processes

_FIRST_S: Final = 15.0
_MAIN: Final = "import sys; from greenlane.cli.main import main; sys.exit(main())"
_APPLICATION: Final = """
import asyncio, base64, hashlib, os, threading, time
time.sleep(float(os.environ.get("BOOT_S", "0")))
FIRST_S, FIRST, WARM = float(os.environ.get("FIRST_S", "0")), threading.Lock(), []

def warm():
    with FIRST:
        if not WARM:
            time.sleep(FIRST_S)
            WARM.append(True)

def burn(ms):
    until = time.thread_time() + ms / 1e3
    while time.thread_time() < until:
        sum(range(100))

def wsgi(environ, start_response):
    kind, value = environ["PATH_INFO"].strip("/"), float(environ["QUERY_STRING"] or 0)
    if kind == "wait": time.sleep(value)
    elif kind == "poll": threading.Event().wait(value)
    elif kind == "burn": burn(value)
    elif kind == "block": time.sleep(value / 1e3)
    elif kind == "warm": warm(); time.sleep(value)
    elif kind == "socket": return socket_of(environ, start_response)
    elif kind == "stream":
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return events(value)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

def events(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield b"data: x\\n\\n"
        threading.Event().wait(0.5)

def socket_of(environ, start_response):
    raw = environ["gunicorn.socket"]
    key = environ["HTTP_SEC_WEBSOCKET_KEY"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    raw.sendall(("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
                 f"Sec-WebSocket-Accept: {accept}\\r\\n\\r\\n").encode())
    while raw.recv(1024):
        pass
    raise StopIteration

async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while (event := await receive())["type"] != "lifespan.shutdown":
            await send({"type": event["type"] + ".complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    kind, value = scope["path"].strip("/"), float(scope["query_string"] or 0)
    if kind == "wait": await asyncio.sleep(value)
    elif kind == "poll":
        try: await asyncio.wait_for(asyncio.Event().wait(), value)
        except asyncio.TimeoutError: pass
    elif kind == "burn": burn(value)
    elif kind == "block": time.sleep(value / 1e3)
    elif kind == "warm":
        await asyncio.to_thread(warm)
        await asyncio.sleep(value)
    headers = [] if kind == "stream" else [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if kind == "stream":
        until = time.monotonic() + value
        while time.monotonic() < until:
            await send({"type": "http.response.body", "body": b"data: x\\n\\n", "more_body": True})
            await asyncio.sleep(0.5)
    await send({"type": "http.response.body", "body": b"" if kind == "stream" else b"ok"})
"""


@dataclass(frozen=True)
class Load:
    """What comes beside the probes."""

    what: str
    #: (requests a second, path), for `turn_s` each.
    turns: tuple[tuple[float, str], ...]
    turn_s: float = 1e9
    #: Most that are open: for what lasts as long as the run.
    most: int = 10**9
    environ: tuple[tuple[str, str], ...] = ()
    #: When SIGHUP is sent, from the start; 0 = never.
    hup_s: float = 0.0
    #: The probes begin with the process, not when it serves.
    from_start: bool = False


LOADS: Final = {
    "polls": Load("8 long polls a second, of 5 s, on a lock", ((8, "/poll?5"),)),
    "sse": Load("40 event streams", ((20, "/stream?999"),), most=40),
    "sockets": Load("40 WebSockets", ((20, "/socket"),), most=40),
    "wait1": Load("25 a second that wait 1 s", ((25, "/wait?1"),)),
    "wait8": Load("5 a second that wait 8 s", ((5, "/wait?8"),)),
    "start": Load("a boot of 3 s, a first request of 2 s, then 20 a second that wait 0.1 s", ((20, "/warm?0.1"),),
                  environ=(("BOOT_S", "3"), ("FIRST_S", "2")), from_start=True),
    "hup": Load("20 a second that wait 2 s, and a reload", ((20, "/wait?2"),), hup_s=8.0),
    "mix": Load("in turns of 5 s: 40 a second compute 20 ms, 15 wait 2 s", ((40, "/burn?20"), (15, "/wait?2")),
                turn_s=5.0),
    # Beside these eight: what the limit is there for.
    "computes": Load("60 a second that compute 40 ms", ((60, "/burn?40"),)),
    "blocks": Load("110 a second that block their thread, or loop, for 20 ms", ((110, "/block?20"),)),
}  # fmt: skip


@dataclass
class Seen:
    """What clients saw."""

    #: Due, ms, answer.
    probes: list[tuple[float, float, str]] = field(default_factory=list)
    load: list[tuple[float, float, str]] = field(default_factory=list)


async def _answer(port: int, path: str) -> str:
    """`ok`, a status, or what was wrong."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        key = base64.b64encode(random.randbytes(16)).decode()
        more = (
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            if path == "/socket"
            else "Connection: close\r\n"
        )
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status = head[9:12].decode()
        while await reader.read(65536):
            pass
        return "ok" if status in ("200", "101") else status
    except (OSError, asyncio.IncompleteReadError) as error:
        return type(error).__name__
    finally:
        if writer is not None:
            writer.close()


async def _loop(
    begin_s: float,
    end_s: float,
    rate: Callable[[float], tuple[float, str]],
    ask: Callable[[float, str], Awaitable[None]],
) -> None:
    due_s, tasks = begin_s, set[asyncio.Task[None]]()
    while due_s < end_s:
        per_s, path = rate(due_s - begin_s)
        due_s += 1 / per_s
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        tasks.add(asyncio.create_task(ask(due_s, path)))  # type: ignore[arg-type]
    await asyncio.sleep(1.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def watched(port: int, load: Load, seconds: float, parent: int) -> Seen:
    """One run."""
    seen, begin_s, open_now = Seen(), time.monotonic(), 0

    async def probe(due_s: float, path: str) -> None:
        answer = "open"
        try:
            answer = await _answer(port, path)
        finally:
            seen.probes.append((due_s - begin_s, (time.monotonic() - due_s) * 1e3, answer))

    async def one(due_s: float, path: str) -> None:
        nonlocal open_now
        if open_now >= load.most:
            return
        open_now += 1
        answer = "open"
        try:
            answer = await _answer(port, path)
        finally:
            open_now -= 1
            seen.load.append((due_s - begin_s, (time.monotonic() - due_s) * 1e3, answer))

    def turn(at_s: float) -> tuple[float, str]:
        return load.turns[int(at_s / load.turn_s) % len(load.turns)]

    async def hup() -> None:
        await asyncio.sleep(load.hup_s)
        os.kill(parent, signal.SIGHUP)

    end_s = begin_s + seconds
    loops = [_loop(begin_s, end_s, lambda at_s: (10.0, "/health"), probe), _loop(begin_s, end_s, turn, one)]
    await asyncio.gather(*loops, *([hup()] if load.hup_s else []))
    return seen


def _command(contender: str, kind: str, port: int) -> list[str]:
    bind = ["--bind", f"127.0.0.1:{port}"]
    if contender == "gthread-64":
        gunicorn = [sys.executable, "-m", "gunicorn", "waits:wsgi", "-k", "gthread", "-w", "2", "--threads", "64"]
        return [*gunicorn, "--log-level", "error", *bind]
    return [sys.executable, "-c", _MAIN, "serve", f"waits:{kind}", "--kind", kind, *bind]


def run(contender: str, load: Load, seconds: float, kind: str, source: str) -> tuple[Seen, str]:
    """Start it, watch it, end it; what clients saw, and the number that was set at the end."""
    port, name = processes.free_port(), tempfile.mkdtemp()
    folder = Path(name)
    (folder / "waits.py").write_text(_APPLICATION)
    (folder / "greenlane.toml").write_text("workers = 2\n")
    env = {**os.environ, **dict(load.environ), "GREENLANE_CONFIG": str(folder / "greenlane.toml"),
           "PYTHONPATH": os.pathsep.join(filter(None, [source, name]))}  # fmt: skip
    with (folder / "log").open("wb") as out:
        child = processes.Child(_command(contender, kind, port), env, out, folder)
    try:
        until_s, told = time.monotonic() + 60, ""
        while not _ready(port, load.from_start) and time.monotonic() < until_s:
            time.sleep(0.02)
        seen = asyncio.run(watched(port, load, seconds, child.pid))
        if contender != "gthread-64":
            told = _told(env, port, folder)
    finally:
        child.end()
        log = (folder / "log").read_text()
        if "Traceback" in log:
            print(log[-2000:], file=sys.stderr)
        shutil.rmtree(name, ignore_errors=True)
    return seen, told


def _ready(port: int, from_start: bool) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
        if from_start:
            return True
        connection.settimeout(5)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(100).startswith(b"HTTP/1.1 200")
    return False


def _told(env: dict[str, str], port: int, folder: Path) -> str:
    command = [sys.executable, "-c", _MAIN, "serve", "--status", "--json", "--bind", f"127.0.0.1:{port}"]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)
    with contextlib.suppress(ValueError, LookupError):
        group = json.loads(done.stdout)["rows"][0]["groups"][0]
        return f"{group['at_once']} ({group['by']})"
    return "?"


def rows_of(seen: Seen) -> dict[str, dict[str, object]]:
    """Of the first seconds, those after, and all."""
    spans = {"first 15 s": (0.0, _FIRST_S), "after": (_FIRST_S, 1e9), "all": (0.0, 1e9)}
    rows: dict[str, dict[str, object]] = {}
    for name, (low, high) in spans.items():
        took = sorted(ms for at_s, ms, _ in seen.probes if low <= at_s < high)
        load = [(ms, answer) for at_s, ms, answer in seen.load if low <= at_s < high]
        if not took:
            continue
        ended = sorted(ms for ms, answer in load if answer == "ok")
        rows[name] = {
            "probes": len(took), "p50_ms": round(statistics.median(took), 1),
            "p99_ms": round(took[min(len(took) - 1, int(0.99 * len(took)))], 1), "worst_ms": round(took[-1], 1),
            "refused": sum(answer not in ("ok", "open") for at_s, _, answer in seen.probes if low <= at_s < high),
            "unanswered": sum(answer == "open" for at_s, _, answer in seen.probes if low <= at_s < high),
            "sent": len(load), "load_p50_ms": round(statistics.median(ended), 1) if ended else None,
            "load_refused": dict(Counter(answer for _, answer in load if answer not in ("ok", "open"))),
        }  # fmt: skip
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the arguments say; a row of JSON for each run and span."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", choices=LOADS, required=True)
    parser.add_argument("--seconds", type=float, default=22.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kind", choices=("wsgi", "asgi"), default="wsgi")
    parser.add_argument("--source", nargs="*", default=[], help="packages/*/src of another checkout")
    parser.add_argument("--contenders", nargs="*", default=["serve", "gthread-64"])
    arguments = parser.parse_args(argv)
    contenders = [(name, "") for name in arguments.contenders]
    if arguments.source:
        contenders.insert(0, ("serve-there", os.pathsep.join(map(os.path.abspath, arguments.source))))
    load = LOADS[arguments.load]
    print(f"{arguments.load}: {load.what}", file=sys.stderr)
    for number in range(arguments.rounds):
        for contender, source in contenders[number % len(contenders) :] + contenders[: number % len(contenders)]:
            seen, told = run(contender, load, arguments.seconds, arguments.kind, source)
            for span, row in rows_of(seen).items():
                named = {"load": arguments.load, "contender": contender, "span": span, "at_once": told}
                print(json.dumps({**row, **named}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
