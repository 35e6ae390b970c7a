"""One connection to a Redis server, for many commands at once: written without waiting, answered in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import hiredis

_CONNECT_S: Final = 1.0
# So many commands may wait for answers: a server that hangs shall not fill our memory.
_MOST_WAITING: Final = 16_000


class Connection:
    """A connection that is made when it is needed, and anew after it broke.

    Args:
        port: of the server on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._making = asyncio.Lock()
        self._wire: _Wire | None = None

    async def asked(self, commands: Sequence[tuple[bytes, ...]]) -> list[Any]:
        """The answers to these commands, in their order. Cancel it at will: other questions are not disturbed.

        Raises:
            ConnectionError: there is no connection, or it ended before the answers were complete.
            hiredis.ReplyError: a command was refused.
        """
        wire = await self._connected()
        answers = await wire.asked(commands)
        refused = next((answer for answer in answers if isinstance(answer, hiredis.ReplyError)), None)
        if refused is not None:
            raise refused
        return answers

    def close(self) -> None:
        """Ends it; questions that wait fail."""
        if self._wire is not None:
            self._wire.end(ConnectionError("closed"))

    async def _connected(self) -> _Wire:
        async with self._making:
            if self._wire is None or self._wire.ended:
                loop = asyncio.get_running_loop()
                async with asyncio.timeout(_CONNECT_S):
                    _, self._wire = await loop.create_connection(lambda: _Wire(self._port), "127.0.0.1", self._port)
            return self._wire


class _Wire(asyncio.Protocol):
    """The connection's bytes."""

    def __init__(self, port: int) -> None:
        self.ended = False
        self._port = port
        self._transport: asyncio.Transport
        self._reader = hiredis.Reader()
        # Who waits, in the order of their commands: the answers so far, and how many there will be.
        self._waiting: deque[tuple[asyncio.Future[list[Any]], list[Any], int]] = deque()
        self._commands = 0
        self._heard_s = 0.0

    async def asked(self, commands: Sequence[tuple[bytes, ...]]) -> list[Any]:
        """The answers as they come, errors among them."""
        if self._commands + len(commands) > _MOST_WAITING:
            raise ConnectionError(f"asking port {self._port}: {self._commands} commands wait for answers")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        self._waiting.append((future, [], len(commands)))
        self._commands += len(commands)
        # hiredis' stub takes tuples of one only.
        self._transport.write(b"".join(hiredis.pack_command(command) for command in commands))  # type: ignore[arg-type]
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
            future, _, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """From the loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """From the loop."""
        self._heard_s = asyncio.get_running_loop().time()
        self._reader.feed(data)
        # False: nothing complete yet. A null answer is None.
        while (answer := self._reader.gets()) is not False and self._waiting:
            future, answers, wanted = self._waiting[0]
            answers.append(answer)
            self._commands -= 1
            if len(answers) == wanted:
                self._waiting.popleft()
                if not future.done():
                    future.set_result(answers)

    def connection_lost(self, error: Exception | None) -> None:
        """From the loop."""
        self.end(error or ConnectionResetError("Connection closed by server."))
