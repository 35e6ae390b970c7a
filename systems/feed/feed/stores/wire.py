"""One connection to a shard: commands are written without waiting, native code reads the replies, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from feed import native

_CONNECT_S: Final = 1.0
# So many questions may wait for answers: a server that hangs shall not fill our memory.
_MOST_WAITING: Final = 1_000


async def connected(port: int) -> Wire:
    """A new connection to 127.0.0.1:port.

    Raises:
        OSError: nobody listens, or takes it within a second.
    """
    async with asyncio.timeout(_CONNECT_S):
        _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(port), "127.0.0.1", port)
    return wire


class Wire(asyncio.Protocol):
    """A connection's bytes: written without waiting, answered in order."""

    def __init__(self, port: int) -> None:
        self.ended = False
        self._port = port
        self._transport: asyncio.Transport
        self._waiting: deque[tuple[asyncio.Future[native.Replies], native.Replies]] = deque()
        self._heard_s = 0.0

    async def asked(self, command: bytes, count: int) -> native.Replies:
        """The replies to a command with so many values. Cancel it at will: other questions are not disturbed."""
        if len(self._waiting) >= _MOST_WAITING:
            raise ConnectionError(f"asking port {self._port}: {len(self._waiting)} questions wait for answers")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[native.Replies] = loop.create_future()
        self._waiting.append((future, native.Replies(count)))
        self._transport.write(command)
        sent_s = loop.time()
        try:
            return await future
        except asyncio.CancelledError:
            if self._heard_s < sent_s:
                # Not a word since: whoever comes next shall not stand behind this.
                self.end(ConnectionError(f"asking port {self._port}: it hangs"))
            raise

    def end(self, error: Exception) -> None:
        """Closes the connection; who waits gets the error."""
        self.ended = True
        self._transport.abort()
        while self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """From the loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """From the loop."""
        self._heard_s = asyncio.get_running_loop().time()
        while data and self._waiting:
            future, replies = self._waiting[0]
            try:
                rest = replies.feed(data)
            except ConnectionError as error:
                self.end(error)
                return
            if rest is None:
                return
            self._waiting.popleft()
            if not future.done():
                future.set_result(replies)
            data = data[len(data) - rest :]

    def connection_lost(self, error: Exception | None) -> None:
        """From the loop."""
        self.end(error or ConnectionResetError("Connection closed by server."))
