"""A relay in front of a port, which can hold back what comes through it, or refuse connections: for faults.

    python -m greenlane_tools.lab.run.relay PORT TARGET_PORT DELAY_MS

SIGUSR1: answers are held back by DELAY_MS. SIGUSR2: it stops to listen, so that connections are refused by the kernel;
what is open stays. SIGHUP: as at the start. About 60 us of CPU a request in a process of its own; it stands there for
the whole run, so that what is outside the fault is comparable.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import Final

__all__ = ["Relay", "main"]

_PIECE_BYTES: Final = 1 << 16
_BACKLOG: Final = 4096


class Relay:
    """The relay.

    Args:
        port: where it listens on 127.0.0.1.
        target: the port behind it.
        delay_s: how long answers are held back while it is slow.
    """

    def __init__(self, port: int, target: int, delay_s: float) -> None:
        self._port = port
        self._target = target
        self._delay_s = delay_s
        self._slow = False
        self._server: asyncio.Server | None = None
        self._wanted = asyncio.Event()
        self._open = True

    def slow(self) -> None:
        """From now on answers are held back."""
        self._slow = True

    def refuse(self) -> None:
        """From now on nobody listens."""
        self._open = False
        self._wanted.set()

    def let_pass(self) -> None:
        """As at the start."""
        self._slow, self._open = False, True
        self._wanted.set()

    async def serve(self) -> None:
        """Until it is cancelled. Listening follows `refuse` and `let_pass`."""
        while True:
            self._wanted.clear()
            if self._open and self._server is None:
                self._server = await asyncio.start_server(self._relay, "127.0.0.1", self._port, backlog=_BACKLOG)
            elif not self._open and self._server is not None:
                self._server.close()
                self._server = None
            await self._wanted.wait()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_target, to_target = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pipe(reader, to_target, False), self._pipe(from_target, writer, True))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE_BYTES):
                if answers and self._slow:
                    await asyncio.sleep(self._delay_s)
                writer.write(piece)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()


async def _serve(port: int, target: int, delay_ms: float) -> None:
    gate = Relay(port, target, delay_ms / 1000)
    loop = asyncio.get_running_loop()
    for number, action in ((signal.SIGUSR1, gate.slow), (signal.SIGUSR2, gate.refuse), (signal.SIGHUP, gate.let_pass)):
        loop.add_signal_handler(number, action)
    served = asyncio.ensure_future(gate.serve())
    loop.add_signal_handler(signal.SIGTERM, served.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await served


def main(argv: list[str]) -> int:
    """`argv`: port, target's port, delay in milliseconds."""
    asyncio.run(_serve(int(argv[0]), int(argv[1]), float(argv[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
