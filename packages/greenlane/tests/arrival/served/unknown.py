"""Servers that nobody knows: what reads a request is not what runs it. `python unknown.py HOW PORT`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import multiprocessing
import queue
import socket
import sys
import threading
import time
from typing import Any

import clocked

from greenlane import record
from greenlane.hosts.observed.wsgi import observed

#: What a foreign server calls: an application under observation. Its environ names no connection.
APPLICATION = observed(clocked.wsgi, "foreign")


def path_of(head: bytes) -> str:
    return head.split(b" ", 2)[1].decode()


def answered(path: str) -> bytes:
    with record.job("work"):
        began_ns = time.monotonic_ns()
        time.sleep(clocked.hold_s(path))
        return with_head(clocked.answer(began_ns))


def by_wsgi(path: str) -> bytes:
    body = APPLICATION({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda *_: lambda _: None)
    try:
        return with_head(b"".join(body))
    finally:
        body.close()  # type: ignore[attr-defined]


def with_head(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def heads(connection: socket.socket) -> Any:
    """Heads of requests, until the client leaves; a body is read and left out."""
    got = b""
    while True:
        while b"\r\n\r\n" not in got:
            more = connection.recv(65_536)
            if not more:
                return
            got += more
        head, _, got = got.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
        while len(got) < length:
            got += connection.recv(65_536)
        got = got[length:]
        yield head


def greeted(listener: socket.socket) -> None:
    """What each thread has read before it works: a request on a connection of its own that is no job."""
    with socket.create_connection(listener.getsockname()) as near, listener.accept()[0] as far:
        near.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        far.recv(65_536)
        far.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


def reading_thread(port: int, work: Any = answered) -> None:
    """A thread for each connection reads; three others run what it has read."""
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    inner = socket.create_server(("127.0.0.1", 0))
    requests: queue.Queue[Any] = queue.Queue()

    def run() -> None:
        greeted(inner)
        while True:
            path, answer = requests.get()
            answer.put(work(path))

    def read(connection: socket.socket) -> None:
        answer: queue.Queue[bytes] = queue.Queue()
        with connection:
            for head in heads(connection):
                requests.put((path_of(head), answer))
                connection.sendall(answer.get())

    for _ in range(3):
        threading.Thread(target=run, daemon=True).start()
    while True:
        threading.Thread(target=read, args=(listener.accept()[0],), daemon=True).start()


def reading_thread_wsgi(port: int) -> None:
    """The same with an observed WSGI application, whose environ names no connection."""
    reading_thread(port, by_wsgi)


def _run_in_child(near: Any, far: Any) -> None:
    near.close()
    with contextlib.suppress(EOFError):
        while True:
            far.send(answered(far.recv()))


def reading_process(port: int) -> None:
    """This process reads; another one gets each request over a pipe."""
    near, far = multiprocessing.Pipe()
    multiprocessing.get_context("fork").Process(target=_run_in_child, args=(near, far), daemon=True).start()
    turn = threading.Lock()

    def in_child(path: str) -> bytes:
        with turn:
            near.send(path)
            return near.recv()  # type: ignore[no-any-return]

    reading_thread(port, in_child)


async def _serve_connection(
    app: Any, in_task: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            writer.write(with_head(message["body"]))
            await writer.drain()

    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            scope = {"type": "http", "method": "GET", "path": path_of(head), "headers": [], "http_version": "1.1"}
            called = app(scope, receive, send)
            if in_task:
                called = asyncio.create_task(called)
            else:
                await called
            await reader.readexactly(int(length or 0))
            if in_task:
                await called
    writer.close()


def task_of_connection(port: int, *, in_task: bool = False) -> None:
    """An ASGI server of one's own: the task of a connection calls the application, under the middleware."""
    from greenlane.hosts.asgi import Greenlane

    app = Greenlane(clocked.asgi, host="foreign")

    async def serve() -> None:
        server = await asyncio.start_server(functools.partial(_serve_connection, app, in_task), "127.0.0.1", port)
        await server.serve_forever()

    asyncio.run(serve())


def task_of_request(port: int) -> None:
    """The same with a task for each request, which the connection's task makes."""
    task_of_connection(port, in_task=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))
