"""A server that stalls once: what tells an open loop from a closed one.

    python packages/greenlane-tools/tests/lab/load/stalling.py 24000 --after-s 1 --stall-s 1

One thread that answers each request immediately, except that it sleeps, with everybody, when the first request is
`--after-s` ago. It stands for a garbage collection, a lock, a failover.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import sys
import time
from typing import Final

_ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_READ_BYTES: Final = 1 << 16


def serve(port: int, after_s: float, stall_s: float) -> None:
    """Serves 127.0.0.1 on `port` and never returns. A request is taken to come whole in one read, and alone."""
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    listener.setblocking(False)
    watched = selectors.DefaultSelector()
    watched.register(listener, selectors.EVENT_READ)
    stall_at_s = None
    while True:
        for key, _ in watched.select():
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if connection is listener:
                _accept(listener, watched)
                continue
            if not _read(connection):
                watched.unregister(connection)
                connection.close()
                continue
            if stall_at_s is None:
                stall_at_s = time.monotonic() + after_s
            elif time.monotonic() >= stall_at_s:
                stall_at_s = float("inf")
                time.sleep(stall_s)
            _answer(connection)


def _accept(listener: socket.socket, watched: selectors.BaseSelector) -> None:
    try:
        connection, _ = listener.accept()
    except OSError:  # it is gone again
        return
    connection.setblocking(False)
    watched.register(connection, selectors.EVENT_READ)


def _read(connection: socket.socket) -> bool:
    """Something came; False = the end."""
    try:
        return bool(connection.recv(_READ_BYTES))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _answer(connection: socket.socket) -> None:
    try:
        connection.send(_ANSWER)
    except OSError:  # its next read says so, too
        return


def main() -> int:
    """The command line above."""
    parser = argparse.ArgumentParser(description="A server on 127.0.0.1 that stalls once.")
    parser.add_argument("port", type=int)
    parser.add_argument("--after-s", type=float, default=1.0, help="from the first request (default %(default)s)")
    parser.add_argument("--stall-s", type=float, default=1.0, help="how long (default %(default)s)")
    arguments = parser.parse_args()
    serve(arguments.port, arguments.after_s, arguments.stall_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
