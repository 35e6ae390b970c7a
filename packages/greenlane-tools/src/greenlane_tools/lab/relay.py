"""A TCP relay whose cable can be cut and slowed: between a load and a service, a worker and its broker.

    with Relays() as relays:                       # one thread and one event loop for all
        relay = relays.to(target_port)             # listens at relay.port
        relay.set(Cable.CUT); …; relay.set(Cable.WELL)

    python -m greenlane_tools.lab.relay PORT TARGET_PORT DELAY_MS

As a process: SIGUSR1 is `LATE`, SIGUSR2 `SHUT`, SIGHUP `WELL`. About 60 us of CPU a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import signal
import socket
import struct
import sys
import threading
from collections.abc import Coroutine
from typing import Any, Final, Self

from greenlane_tools.lab.processes import free_port

_CHUNK_BYTES: Final = 1 << 16
_BACKLOG: Final = 4096
#: A call of a few chunks each way takes some 0.2 s longer.
_DELAY_S: Final = 0.1
_RESET: Final = struct.pack("ii", 1, 0)


class Cable(enum.Enum):
    """What happens to the bytes."""

    WELL = "well"
    # Each chunk is late.
    SLOW = "slow"
    # Answers are late.
    LATE = "late"
    # Nobody listens: the kernel refuses new connections; open ones stay.
    SHUT = "shut"
    # Connections are reset, new ones too.
    CUT = "cut"
    # Connections stay, new ones are accepted, and no byte arrives. Afterwards those of that time are reset, as by a
    # firewall that has forgotten them.
    HOLE = "hole"
    # Questions arrive, answers do not. Afterwards the connections of that time are reset.
    HALF = "half"


class Relay:
    """One listening port of 127.0.0.1.

    Args:
        target: the port behind it, on which nobody need listen yet.
        port: where it listens; 0 = a free one.
        delay_s: of a chunk while it is SLOW or LATE.
    """

    def __init__(self, target: int, port: int = 0, delay_s: float = _DELAY_S) -> None:
        self.port = port or free_port()
        self._target, self._delay_s = target, delay_s
        self._cable = Cable.WELL
        self._passes = asyncio.Event()
        self._passes.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    def set(self, cable: Cable) -> None:
        """Changes what happens to the bytes, of open connections too; comes back when it is so. Not on its own loop."""
        asyncio.run_coroutine_threadsafe(self.become(cable), self._loop).result(10)

    async def become(self, cable: Cable) -> None:
        """The same on its own loop; the first call makes it listen."""
        self._loop = asyncio.get_running_loop()
        before, self._cable = self._cable, cable
        if cable is Cable.CUT or before in (Cable.HOLE, Cable.HALF):
            for writer in list(self._open):
                _reset(writer)
        if cable in (Cable.CUT, Cable.HOLE, Cable.HALF):
            self._passes.clear()
        else:
            self._passes.set()
        if cable is Cable.SHUT:
            self.close()
        elif self._server is None:
            self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port, backlog=_BACKLOG)

    def close(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled at the end of all relays: asyncio would report that as an error of this callback.
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.ExitStack() as closed:
            self._kept(writer, closed)
            if self._cable is Cable.CUT:
                _reset(writer)
            elif self._cable is Cable.HOLE:
                await self._passes.wait()  # it is reset then
            if writer.transport.is_closing():
                return
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._kept(back, closed)
            both = [
                asyncio.create_task(self._copy(reader, back, False)),
                asyncio.create_task(self._copy(there, writer, True)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()

    def _kept(self, writer: asyncio.StreamWriter, closed: contextlib.ExitStack) -> None:
        self._open.add(writer)
        closed.callback(writer.close)
        closed.callback(self._open.discard, writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                if self._cable is Cable.SLOW or (answers and self._cable is Cable.LATE):
                    await asyncio.sleep(self._delay_s)
                if self._cable is Cable.HOLE or (answers and self._cable is Cable.HALF):
                    continue
                writer.write(chunk)
                await writer.drain()


class Relays:
    """The thread that all relays run on. A context manager; on exit every connection is closed."""

    def __enter__(self) -> Self:
        self._relays: list[Relay] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._call(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to(self, port: int) -> Relay:
        """A relay to 127.0.0.1:port that listens."""
        relay = Relay(port)
        self._relays.append(relay)
        self._call(relay.become(Cable.WELL))
        return relay

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _ended(self) -> None:
        for relay in self._relays:
            relay.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def _serve(relay: Relay) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    asked: set[asyncio.Task[None]] = set()

    def become(cable: Cable) -> None:
        asked.add(task := loop.create_task(relay.become(cable)))
        task.add_done_callback(asked.discard)

    for number, cable in ((signal.SIGUSR1, Cable.LATE), (signal.SIGUSR2, Cable.SHUT), (signal.SIGHUP, Cable.WELL)):
        loop.add_signal_handler(number, become, cable)
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await relay.become(Cable.WELL)
    await ended.wait()


def main(argv: list[str]) -> int:
    """`argv`: port, target's port, delay in milliseconds."""
    port, target, delay_ms = argv
    asyncio.run(_serve(Relay(int(target), int(port), float(delay_ms) / 1e3)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
