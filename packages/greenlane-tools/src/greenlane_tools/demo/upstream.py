"""A process that answers every request after a fixed time: the demo's upstream, and the server of scenario `stall`.

    python -m greenlane_tools.demo.upstream PORT [MILLISECONDS]

A bare asyncio protocol (about 40 µs of CPU a request): it shares the machine with the service under test and must
not be what is measured. It reads a request's head only, keeps connections alive, and never refuses.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Final

# Keep-alive is stated, since ab speaks HTTP/1.0 and would wait for the end of the connection.
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n"
_ANSWER: Final = _HEAD + b"ok"
# More than any demo keeps open, so that a burst is never refused by the kernel.
_BACKLOG: Final = 4096


class Delayed(asyncio.Protocol):
    """Answers each request head `delay_s` after its last byte came in."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._head = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: a client is here."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio's: bytes came in."""
        self._head += data
        while b"\r\n\r\n" in self._head:
            _, _, self._head = self._head.partition(b"\r\n\r\n")
            asyncio.get_running_loop().call_later(self._delay_s, self._answer)

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_ANSWER)


async def serve(port: int, delay_s: float) -> None:
    """Serves 127.0.0.1:`port` until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Delayed(delay_s), "127.0.0.1", port, backlog=_BACKLOG)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    server.close()


def main(argv: list[str]) -> int:
    """`argv`: port, then the delay in milliseconds (100 when left out)."""
    asyncio.run(serve(int(argv[0]), float(argv[1] if len(argv) > 1 else 100) / 1000))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
