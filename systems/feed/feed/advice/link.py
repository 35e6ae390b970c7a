"""A link of a given speed: a proxy on loopback that hands on no faster. `python -m feed.advice.link --help`.

What goes to the target passes immediately; what comes back is paced: after n bytes at least n / speed has passed since
the first one. It is a process of its own, so that its work is not the measured program's.
"""

from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Sequence
from typing import Final

# Handed on at a time, at most; and at slow speeds what passes in so long.
_CHUNK, _CHUNK_S = 65_536, 0.0005
_LEAST: Final = 1_500


class Pace:
    """When bytes may go on.

    Args:
        bytes_per_s: speed; 0 = as fast as it goes.
    """

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._began_s = 0.0
        self._sent = 0

    @property
    def chunk(self) -> int:
        """Bytes to hand on at a time."""
        if not self._bytes_per_s:
            return _CHUNK
        return int(min(_CHUNK, max(_LEAST, self._bytes_per_s * _CHUNK_S)))

    def after(self, count: int, now_s: float) -> float:
        """Seconds to wait at `now_s` before `count` more bytes have passed."""
        if not self._bytes_per_s:
            return 0.0
        if not self._sent:
            self._began_s = now_s
        self._sent += count
        return max(0.0, self._began_s + self._sent / self._bytes_per_s - now_s)


def serve(port: int, target: int, bytes_per_s: float) -> None:
    """Hands on connections until the process is ended."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_joined, args=(near, target, bytes_per_s), daemon=True).start()


def _joined(near: socket.socket, target: int, bytes_per_s: float) -> None:
    with near, socket.create_connection(("127.0.0.1", target)) as far:
        threading.Thread(target=_passed, args=(near, far, 0.0), daemon=True).start()
        _passed(far, near, bytes_per_s)


def _passed(source: socket.socket, sink: socket.socket, bytes_per_s: float) -> None:
    pace = Pace(bytes_per_s)
    try:
        while chunk := source.recv(pace.chunk):
            time.sleep(pace.after(len(chunk), time.monotonic()))
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        # Either end is gone: so is the connection.
        return


def main(argv: Sequence[str] | None = None) -> None:
    """The proxy as a program."""
    parser = argparse.ArgumentParser(prog="python -m feed.advice.link", description=(__doc__ or "").partition(".")[0])
    parser.add_argument("--port", type=int, required=True, help="where it listens")
    parser.add_argument("--target", type=int, required=True, help="port of loopback that it hands on to")
    parser.add_argument("--mbit-per-s", type=float, required=True, help="speed; 0 = as fast as it goes")
    given = parser.parse_args(argv)
    serve(given.port, given.target, given.mbit_per_s * 1e6 / 8)


if __name__ == "__main__":
    main()
