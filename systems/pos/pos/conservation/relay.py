"""A TCP relay whose cable can be cut: between a worker and its broker, or a worker and its merchants.

    relay = Relay(target_port)     # listens at relay.port
    relay.set(Cable.CUT); …; relay.set(Cable.WELL)

One thread and one event loop for all relays of a `Relays`; they live in the process that injects the faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Final, Self

from greenlane_tools.lab.processes import free_port

_CHUNK_BYTES: Final = 1 << 16
# SLOW: each chunk waits this long before it goes on; a call of a few chunks each way takes some 0.2 s longer.
_SLOW_S: Final = 0.1
_RESET: Final = struct.pack("ii", 1, 0)


class Cable(enum.Enum):
    """What becomes of the bytes."""

    WELL = "well"
    # Connections are reset, new ones too.
    CUT = "cut"
    # Connections stay, new ones are accepted, and no byte arrives, ever. Afterwards those of that time are reset, as by
    # a firewall that has forgotten them.
    HOLE = "hole"
    # What is asked arrives, no answer comes back. Afterwards the connections of that time are reset.
    HALF = "half"
    # Each chunk is late.
    SLOW = "slow"


class Relays:
    """The thread that all relays run on. A context manager; on exit every connection is closed."""

    def __enter__(self) -> Self:
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.call(self._cancelled())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to(self, port: int) -> Relay:
        """A relay to 127.0.0.1:port, which need not listen yet."""
        return Relay(self, port)

    def opened(self, server: asyncio.Server) -> None:
        """Closed with the others."""
        self._servers.append(server)

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` on the relays' thread and waits for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _cancelled(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Relay:
    """One listening port; made by `Relays.to`."""

    def __init__(self, relays: Relays, target: int) -> None:
        self.port = free_port()
        self._relays = relays
        self._target = target
        self._cable = Cable.WELL
        self._well = asyncio.Event()
        self._well.set()
        self._open: set[asyncio.StreamWriter] = set()
        relays.call(self._listen())

    def set(self, cable: Cable) -> None:
        """Changes what becomes of the bytes, of open connections too; comes back when it is so."""
        self._relays.call(self._set(cable))

    async def _set(self, cable: Cable) -> None:
        before, self._cable = self._cable, cable
        if cable is Cable.CUT or before in (Cable.HOLE, Cable.HALF):
            self._reset_all()
        if cable in (Cable.WELL, Cable.SLOW):
            self._well.set()
        else:
            self._well.clear()

    async def _listen(self) -> None:
        self._relays.opened(await asyncio.start_server(self._accepted, "127.0.0.1", self.port, backlog=4096))

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled at the end of all relays: asyncio would report that as an error of this callback.
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.ExitStack() as closed:
            self._kept(writer, closed)
            if self._cable is Cable.CUT:
                _reset(writer)
            elif self._cable is Cable.HOLE:
                await self._well.wait()  # it is reset then
            if writer.transport.is_closing():
                return
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._kept(back, closed)
            both = [asyncio.create_task(self._copy(reader, back)), asyncio.create_task(self._copy(there, writer, True))]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()

    def _kept(self, writer: asyncio.StreamWriter, closed: contextlib.ExitStack) -> None:
        self._open.add(writer)
        closed.callback(writer.close)
        closed.callback(self._open.discard, writer)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool = False) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                if self._cable is Cable.SLOW:
                    await asyncio.sleep(_SLOW_S)
                if self._cable is Cable.HOLE or (self._cable is Cable.HALF and answers):
                    continue
                writer.write(chunk)
                await writer.drain()

    def _reset_all(self) -> None:
        for writer in list(self._open):
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
