"""The application that the gunicorn tests serve: its paths are the cases; it prints `entered ...` where it waits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from greenlane import checkpoint

if "READ_GEVENT" in os.environ:
    import gevent.monkey

    gevent.monkey.patch_all()


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    case = CASES.get(environ["PATH_INFO"], _hello)
    return case(environ, start_response)


def _answer(start_response: Any, body: bytes) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def _hello(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    return _answer(start_response, b"hello\n")


def _pid(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    return _answer(start_response, str(os.getpid()).encode())


def _threads(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    names = [thread.name for thread in threading.enumerate()]
    return _answer(start_response, str(sum(name.startswith("greenlane-") for name in names)).encode())


def _cores(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """The cores of the request's thread, and of a child that it forks."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, repr(_kept_to()).encode())
        os._exit(0)
    os.wait()
    child = os.read(read, 4096).decode()
    os.close(read)
    os.close(write)
    return _answer(start_response, f"{_kept_to()} {child}".encode())


def _kept_to() -> list[int]:
    """As the kernel says: `os.sched_getaffinity` gives a request's thread all that the process has."""
    status = Path(f"/proc/self/task/{threading.get_native_id()}/status").read_text()
    parts = status.partition("Cpus_allowed_list:")[2].split()[0].split(",")
    ends = [[int(end) for end in part.split("-")] for part in parts]
    return [core for first, *last in ends for core in range(first, (last or [first])[0] + 1)]


def _hold(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Waits until the file that the query names exists."""
    _say(f"entered {environ['QUERY_STRING']} in {os.getpid()}")
    wait_for(environ["QUERY_STRING"])
    _say(f"left {environ['QUERY_STRING']}")
    return _answer(start_response, b"held\n")


def _say(line: str) -> None:
    """By one system call: threads and processes write whole lines."""
    os.write(2, f"{line}\n".encode())


def _spin(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    end = time.thread_time() + float(environ["QUERY_STRING"])
    while time.thread_time() < end:
        pass
    return _answer(start_response, b"spun\n")


def _checkpoints(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    while True:
        checkpoint()
        time.sleep(0.001)


def _length(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    size = 0
    while piece := environ["wsgi.input"].read(65536):
        size += len(piece)
    return _answer(start_response, str(size).encode())


def _unread(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    return _answer(start_response, b"not read\n")


def _stream(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return (b"%d," % number for number in range(100))


def _started(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
    """Sends a piece, then waits as `_hold` does."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"begun,"
    wait_for(environ["QUERY_STRING"])
    yield b"ended"


def _endless(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    try:
        while True:
            yield b"x" * 65536
    finally:
        _say("endless closed")


def _file(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    path = Path(environ["QUERY_STRING"])
    start_response("200 OK", [("Content-Length", str(path.stat().st_size))])
    return environ["wsgi.file_wrapper"](path.open("rb"))


def _declares(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Sends ten bytes and declares as many as the query says."""
    start_response("200 OK", [("Content-Length", environ["QUERY_STRING"])])
    return [b"01234", b"56789"]


def _declares_file(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Sends a file and declares 1,000 bytes."""
    start_response("200 OK", [("Content-Length", "1000")])
    return environ["wsgi.file_wrapper"](Path(environ["QUERY_STRING"]).open("rb"))


def _raises(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    raise {"value": ValueError, "exit": SystemExit, "os": OSError, "base": BaseException}[environ["QUERY_STRING"]]("no")


def _raises_later(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"begun,"
    raise {"value": ValueError, "exit": SystemExit}[environ["QUERY_STRING"]]("no")


def _environ(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    return _answer(start_response, repr({key: str(value) for key, value in environ.items()}).encode())


def _takes_socket(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    sock = environ["gunicorn.socket"]
    sock.sendall(b"taken over")
    sock.close()
    return []


def wait_for(name: str) -> None:
    while not os.path.exists(name):
        time.sleep(0.005)


CASES = {
    "/pid": _pid,
    "/threads": _threads,
    "/cores": _cores,
    "/hold": _hold,
    "/spin": _spin,
    "/checkpoints": _checkpoints,
    "/length": _length,
    "/unread": _unread,
    "/stream": _stream,
    "/started": _started,
    "/endless": _endless,
    "/file": _file,
    "/declares": _declares,
    "/declares-file": _declares_file,
    "/raises": _raises,
    "/raises-later": _raises_later,
    "/environ": _environ,
    "/takes-socket": _takes_socket,
}
