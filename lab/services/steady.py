"""A server that answers every request after the same time, without CPU worth counting: `python steady.py PORT MS`.

Whatever else a client of it sees was done to it.
"""

from __future__ import annotations

import asyncio
import sys

# Said, since ab speaks HTTP/1.0 and would wait for the end of the connection.
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n"
_ANSWER = _HEAD + b"ok"


class Steady(asyncio.Protocol):
    """One connection, kept alive."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._head = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is here."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Each head is answered after the delay."""
        self._head += data
        while b"\r\n\r\n" in self._head:
            _, _, self._head = self._head.partition(b"\r\n\r\n")
            asyncio.get_running_loop().call_later(self._delay_s, self._answer)

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_ANSWER)


async def serve(port: int, delay_s: float) -> None:
    """Serves until it is ended."""
    server = await asyncio.get_running_loop().create_server(lambda: Steady(delay_s), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
