"""Messages are received many at a time: one system call for what py-amqp asks the socket for nine times a message.

Each of its reads, and the two changes of the socket's time-out around each frame, let go of the interpreter's lock.
Where other threads wait for that, the owner of the channel then waits for all of them, some fifteen times a message.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

from amqp.transport import TCPTransport

__all__ = ["read_ahead", "read_many"]

#: Some ten messages of usual size: nobody waits long for his turn on the loop. Arbitrary.
_BYTES: Final = 16_384
#: A frame is seven bytes, of which the last four are its length, that many, and one more.
_HEAD: Final = 7
_LENGTH: Final = struct.Struct(">3xI")


def read_many(connection: Any, hub: Any) -> None:
    """Let Celery's loop read the messages of this connection so. Others than plain TCP's keep the reader they have."""
    if _is_plain(connection):
        hub.add_reader(connection.sock, _read, connection)


def read_ahead(connection: Any) -> None:
    """The same where nobody asks the socket whether it is readable: every read looks at what was read ahead first."""
    if _is_plain(connection):
        receive = connection.transport.sock.recv
        connection.transport._quick_recv = lambda length: receive(max(length, _BYTES))


def _is_plain(connection: Any) -> bool:
    return isinstance(getattr(connection, "transport", None), TCPTransport)


def _read(connection: Any) -> None:
    """Receive once, and take in every whole frame: the rest of one that is not whole makes the socket readable."""
    transport = connection.transport
    try:
        received = transport.sock.recv(_BYTES, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return
    except OSError:
        received = b""
    if not received:
        connection.blocking_read(0)  # py-amqp is to meet the end of the connection itself
        return
    transport._read_buffer += received
    # Whoever takes a message in may read on this connection, or lose it.
    while connection._transport is transport and _is_whole(transport._read_buffer):
        connection.blocking_read()


def _is_whole(received: bytes) -> bool:
    """A frame stands at the beginning, with all of its bytes."""
    return len(received) >= _HEAD and len(received) > _HEAD + _LENGTH.unpack_from(received)[0]
