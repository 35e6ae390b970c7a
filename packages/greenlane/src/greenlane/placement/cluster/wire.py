"""Frames between a service and its bridge: a header, a pickle, and beside it the buffers as they lie.

    header   kind, worker, call, a number, length of the pickle, number of buffers; then the length of each

A stream of bytes over a pair of Unix sockets. A buffer is sent from where it lies and received into where it stays: two
copies by the kernel, none by Python. Why not the arena of process workers: on a cluster the network
costs more than this.
"""

from __future__ import annotations

import _socket  # gevent replaces `socket`: these threads are real ones
import contextlib
import dataclasses
import enum
import struct
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["Frame", "FrameKind", "Wire", "pair"]

_HEADER: Final = struct.Struct("<BIQqQI")
_LENGTH: Final = struct.Struct("<Q")
# What may be under way; the kernel gives what it allows. Larger: fewer turns between the two for a large buffer.
_SEND_BYTES: Final = 4 << 20
# The kernel takes 1024.
_MOST_PARTS: Final = 512


class FrameKind(enum.IntEnum):
    """What a frame says."""

    # To the bridge: begin with these options; start and stop a worker; run and cancel a call.
    BEGIN = 1
    START = 2
    STOP = 3
    CALL = 4
    CANCEL = 5
    # From it: it is connected, or cannot be; a worker is there, or gone; what a call gave or raised.
    CONNECTED = 6
    REFUSED = 7
    READY = 8
    LOST = 9
    RESULT = 10
    ERROR = 11


@dataclasses.dataclass(slots=True)
class Frame:
    """One message."""

    kind: FrameKind
    worker: int = 0
    call: int = 0
    number: int = 0
    text: Any = b""
    buffers: Sequence[Any] = ()


class Wire:
    """One end. One thread sends, one receives; both block without the GIL."""

    def __init__(self, fd: int) -> None:
        """Own `fd`."""
        self._socket = _socket.socket(fileno=fd)

    def fileno(self) -> int:
        """Descriptor; -1 = closed."""
        return self._socket.fileno()

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises OSError when the other end is gone."""
        buffers = [memoryview(buffer).cast("B") for buffer in frame.buffers]
        header = _HEADER.pack(frame.kind, frame.worker, frame.call, frame.number, len(frame.text), len(buffers))
        lengths = b"".join(_LENGTH.pack(buffer.nbytes) for buffer in buffers)
        parts = [part for part in (memoryview(header + lengths), memoryview(frame.text), *buffers) if part.nbytes]
        while parts:
            sent = self._socket.sendmsg(parts[:_MOST_PARTS])
            while parts and sent >= parts[0].nbytes:
                sent -= parts.pop(0).nbytes
            if sent:
                parts[0] = parts[0][sent:]

    def receive(self) -> Frame | None:
        """Wait for a frame; None = there will be none. Its buffers are read-only."""
        header = self._exactly(_HEADER.size)
        if header is None:
            return None
        kind, worker, call, number, length, count = _HEADER.unpack(header)
        lengths = self._exactly(count * _LENGTH.size) if count else b""
        sizes = [] if lengths is None else [size for (size,) in _LENGTH.iter_unpack(lengths)]
        parts = [self._exactly(size) for size in (length, *sizes)]
        if lengths is None or any(part is None for part in parts):
            return None
        return Frame(FrameKind(kind), worker, call, number, parts[0], parts[1:])

    def end(self) -> None:
        """End the connection: waiters at both ends are woken. On any thread; idempotent."""
        with contextlib.suppress(OSError):  # It has ended already.
            self._socket.shutdown(_socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the descriptor; no thread may be waiting. The connection ends with its last descriptor. Idempotent."""
        self._socket.close()

    def _exactly(self, length: int) -> memoryview | None:
        whole = memoryview(bytearray(length))
        at = 0
        while at < length:
            try:
                # All of it in one call: each return to Python may wait for the GIL.
                got = self._socket.recv_into(whole[at:], 0, _socket.MSG_WAITALL)
            except OSError:
                return None
            if not got:
                return None
            at += got
        return whole.toreadonly()


def pair() -> tuple[Wire, _socket.socket]:
    """Give our end, and the socket for the other one; close-on-exec."""
    ours, other = _socket.socketpair()
    for end in (ours, other):
        end.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, _SEND_BYTES)
    return Wire(ours.detach()), other
