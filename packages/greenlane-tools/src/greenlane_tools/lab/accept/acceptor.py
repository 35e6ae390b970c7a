"""Four processes that accept by one of the kernel's ways, without any server; run alone, it does not import Greenlane.

    python acceptor.py MECHANISM PROCESSES

prints the port; every connection is answered with the number of its process in fork order, one byte, and closed.

    epoll              each process watches the one listener, level-triggered, as gevent, asyncio and libuv do
    epoll-exclusive    the same with EPOLLEXCLUSIVE, as nginx once did
    blocking-accept    each process sits in accept(2)
    reuse-port         each process has a listener of its own: SO_REUSEPORT
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys


def main(mechanism: str, processes: int) -> None:
    """Forks the processes and waits for the end."""
    reuse = mechanism == "reuse-port"
    # Of SO_REUSEPORT it only reserves the port: it never listens.
    first = _bound(0, reuse)
    if not reuse:
        first.listen(1024)
    for number in range(processes):
        if os.fork() == 0:
            _serve(mechanism, first, number)
    os.write(1, b"%d\n" % first.getsockname()[1])
    signal.pause()


def _bound(port: int, reuse: bool) -> socket.socket:
    made = socket.socket()
    if reuse:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made


def _serve(mechanism: str, listener: socket.socket, number: int) -> None:
    if mechanism == "reuse-port":
        listener = _bound(listener.getsockname()[1], True)
        listener.listen(1024)
    watched = select.epoll()
    if mechanism.startswith("epoll"):
        listener.setblocking(False)
        watched.register(listener, select.EPOLLIN | (select.EPOLLEXCLUSIVE if mechanism == "epoll-exclusive" else 0))
    while True:
        if mechanism.startswith("epoll"):
            watched.poll()
        try:
            client, _ = listener.accept()
        except BlockingIOError:  # another one was faster
            continue
        client.sendall(bytes([number]))
        client.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
