"""Hard cases of naming what answers: a library's own thread, a recycled descriptor, a file, a hog without the GIL."""

from __future__ import annotations

import asyncio
import ctypes
import os
import queue
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from greenlane.record.jobs import job

MS = 1_000_000
_WORK_S = 0.004
_BURN_NS = 8 * MS
_REPLY_AFTER_NS = 3 * MS
_MOMENT = struct.Struct("<Q")

_REPLYING = """
import socket, struct, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    end, _ = listener.accept()
    (at_ns,) = struct.unpack("<Q", end.recv(8))
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        if left_ns > 2_000_000:
            time.sleep((left_ns - 1_000_000) / 1e9)
    end.sendall(struct.pack("<Q", time.monotonic_ns()))
    end.close()
"""
_SPIN = r"""
#include <time.h>
void spin(long ns) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    long until = t.tv_sec * 1000000000L + t.tv_nsec + ns;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec * 1000000000L + t.tv_nsec < until);
}
"""


class _Connection(threading.Thread):
    """As aiosqlite's: a thread that does one thing after the other, and sets the future of each."""

    def __init__(self) -> None:
        super().__init__(name="connection")
        self._asked: queue.SimpleQueue[asyncio.Future[tuple[int, int]] | None] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        """Answer until told to stop."""
        while (future := self._asked.get()) is not None:
            begun_ns = time.monotonic_ns()
            time.sleep(_WORK_S)
            future.get_loop().call_soon_threadsafe(future.set_result, (begun_ns, time.monotonic_ns()))

    def ask(self) -> asyncio.Future[tuple[int, int]]:
        """Give the future of when it began and ended."""
        future: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self._asked.put(future)
        return future

    def stop(self) -> None:
        """End it."""
        self._asked.put(None)
        self.join()


def own_thread(count: int) -> dict[str, Any]:
    """Three at a time ask a connection that has one thread, which the first of them has opened."""
    queued_ns = worked_ns = late_ns = 0

    async def victim(connection: list[_Connection]) -> None:
        nonlocal queued_ns, worked_ns, late_ns
        with job("victim"):
            if not connection:
                connection.append(_Connection())
            from_ns = time.monotonic_ns()
            begun_ns, done_ns = await connection[0].ask()
            late_ns += time.monotonic_ns() - done_ns
        queued_ns, worked_ns = queued_ns + begun_ns - from_ns, worked_ns + done_ns - begun_ns

    async def play() -> None:
        for _ in range(count):
            connection: list[_Connection] = []
            await asyncio.gather(*[asyncio.create_task(victim(connection)) for _ in range(3)])
            connection[0].stop()

    asyncio.run(play())
    return {"wait queue": queued_ns, "io all": (worked_ns, worked_ns + late_ns), "wait pool": 0}


def recycled(count: int) -> dict[str, Any]:
    """Descriptors that libuv closes and gets again: a reply that comes while the loop is busy waits for the loop."""
    import uvloop

    replying = subprocess.Popen([sys.executable, "-S", "-c", _REPLYING], stdout=subprocess.PIPE, text=True)
    assert replying.stdout is not None
    port, waited_ns = int(replying.stdout.readline()), 0

    async def closes(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    async def hog(asked: asyncio.Event) -> None:
        await asked.wait()
        until_ns = time.thread_time_ns() + _BURN_NS
        with job("hog"):
            while time.thread_time_ns() < until_ns:
                pass

    async def victim(own_port: int) -> None:
        nonlocal waited_ns
        # An accepted connection had the number just now.
        reader, writer = await asyncio.open_connection("127.0.0.1", own_port)
        await reader.read()
        await closes(reader, writer)
        asked = asyncio.Event()
        busy = asyncio.create_task(hog(asked))
        with job("victim"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            asked.set()
            writer.write(_MOMENT.pack(time.monotonic_ns() + _REPLY_AFTER_NS))
            (sent_ns,) = _MOMENT.unpack(await reader.readexactly(_MOMENT.size))
            waited_ns += time.monotonic_ns() - sent_ns
        await busy
        await closes(reader, writer)

    async def play() -> None:
        server = await asyncio.start_server(closes, "127.0.0.1", 0)
        for _ in range(count):
            await asyncio.create_task(victim(server.sockets[0].getsockname()[1]))
        server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())
    replying.kill()
    replying.communicate()
    return {"wait loop": waited_ns}


def _queued_ns() -> int:
    """How long this thread has waited for a core, by the scheduler."""
    return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1])


def file(count: int) -> dict[str, Any]:
    """SQLite writes its file and waits for the disk."""
    off_ns = wall_ns = 0
    with tempfile.TemporaryDirectory(prefix="gltruth-", dir="/var/tmp") as folder:
        connection = sqlite3.connect(Path(folder, "orders.sqlite"), isolation_level=None)
        connection.execute("pragma synchronous = full")
        connection.execute("create table orders (number integer, what text)")
        for number in range(count):
            with job("victim"):
                from_ns, from_cpu_ns, from_queued_ns = time.monotonic_ns(), time.thread_time_ns(), _queued_ns()
                connection.execute("insert into orders values (?, ?)", (number, "x" * 500_000))
                took_ns = time.monotonic_ns() - from_ns
                off_ns += took_ns - (time.thread_time_ns() - from_cpu_ns) - (_queued_ns() - from_queued_ns)
                wall_ns += took_ns
        connection.close()
    # What its calls themselves compute may count with them.
    return {"io all": (off_ns, wall_ns), "wait unseen": 0}


def released(count: int) -> dict[str, Any]:
    """One thread computes with the GIL, one in C without: who waits for the GIL waits for the first alone."""
    with tempfile.TemporaryDirectory(prefix="gltruth-") as folder:
        source, built = Path(folder, "spin.c"), Path(folder, "spin.so")
        source.write_text(_SPIN, encoding="utf-8")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", built, source], check=True)
        spin = ctypes.CDLL(os.fspath(built)).spin
    stop: list[bool] = []

    def free() -> None:
        while not stop:
            with job("free"):
                spin(ctypes.c_long(_BURN_NS))
            time.sleep(0.001)

    def holds() -> None:
        while not stop:
            until_ns = time.thread_time_ns() + _BURN_NS
            with job("holder"):
                while time.thread_time_ns() < until_ns:
                    pass
            time.sleep(0.001)

    others = [threading.Thread(target=each) for each in (free, holds)]
    for other in others:
        other.start()
    for _ in range(count):
        with job("victim"):
            for _ in range(5):
                time.sleep(0.001)
    stop.append(True)
    for other in others:
        other.join()
    return {"gil free": 0}
