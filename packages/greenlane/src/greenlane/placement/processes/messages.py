"""What passes between a worker and its parent: messages on a pair of sockets, and a page that both see.

A message stands on the socket up to some size, beyond it in shared memory (`memory`). Each side has one message under
way at most, so that sending never waits for the other.
"""

from __future__ import annotations

import _socket  # gevent replaces what `socket` has of it
import contextlib
import errno
import mmap
import os
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from greenlane.placement.processes.memory import Incoming, Outgoing, memory_file
from greenlane.placement.processes.parcel import Parcel

__all__ = ["CALL", "ERROR", "LOST", "READY", "RESULT", "START", "End", "Message", "Page", "send_fds"]

# Kinds of messages.
START: Final = 0
CALL: Final = 1
RESULT: Final = 2
ERROR: Final = 3
READY: Final = 4
# From a bridge: the worker is gone.
LOST: Final = 5

# Kind, whether it names `__main__`, call, nanoseconds, slot (-1 = what follows), freed and dropped slots, parts.
_HEAD: Final = struct.Struct("=BBqqiHHI")
#: What is no longer than this stands on the socket: a fifth of what its buffer takes.
_SHORT_BYTES: Final = 40 << 10
_MOST_BYTES: Final = 128 << 10
_FD: Final = struct.Struct("=i")
_WORD: Final = struct.Struct("q")
_FLAGS: Final = _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT


class Message(NamedTuple):
    """One message."""

    kind: int
    names_main: bool
    # Whose; counts from 1.
    call_id: int
    # Of a call its deadline (0 = none), of an answer how long the function ran.
    ns: int
    text: Any
    # On the receiver's own memory, writable.
    buffers: list[memoryview]


class End:
    """One end of the pair. One thread sends and receives at a time; which one may change between messages."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._data = bytearray(_MOST_BYTES)
        self._outgoing = Outgoing()
        self.incoming = Incoming()

    @staticmethod
    def pair() -> tuple[End, Any]:
        """Give the parent's end, and the worker's socket."""
        ours, its = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        return End(ours), its

    def send(self, kind: int, call_id: int, ns: int, parcel: Parcel, *, names_main: bool = False) -> None:
        """Send a message. Never blocks.

        Raises:
            BrokenPipeError: the other side is gone.
        OSError: no memory file could be made.
        """
        parts: list[Any] = [parcel.pickle, *parcel.buffers]
        sizes = struct.pack(f"={len(parts)}Q", len(parcel.pickle), *[buffer.nbytes for buffer in parcel.buffers])
        slot, fd = -1, -1
        if len(parcel.pickle) + parcel.out_of_band_bytes + len(sizes) > _SHORT_BYTES:
            slot, fd = self._outgoing.fill([sizes, *parts])
        freed, self._outgoing.dropped, dropped = self.incoming.unseen(), [], self._outgoing.dropped
        head = _HEAD.pack(kind, names_main, call_id, ns, slot, len(freed), len(dropped), len(parts))
        if freed or dropped:
            head += struct.pack(f"={len(freed) + len(dropped)}i", *freed, *dropped)
        try:
            if fd >= 0:
                send_fds(self._socket, [fd], head)
            else:
                self._socket.send(head if slot >= 0 else b"".join((head, sizes, *parts)), _FLAGS)
        except OSError as error:
            raise BrokenPipeError(*error.args) from error
        finally:
            if fd >= 0:
                os.close(fd)

    def receive(self) -> Message | None:
        """Wait for a message; None = the other side is gone. Raises OSError if it cannot be read."""
        try:
            length, rights, flags, _ = self._socket.recvmsg_into(
                [self._data], _socket.CMSG_SPACE(_FD.size), _socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            return None
        if not length:
            return None
        if flags & _socket.MSG_CTRUNC:  # the kernel had no number for the descriptor beside it
            raise OSError(errno.EMFILE, "Too many open files")
        data = self._data
        kind, names_main, call_id, ns, slot, freed, dropped, count = _HEAD.unpack_from(data)
        if rights:
            self.incoming.add(slot, _FD.unpack(rights[0][2])[0])
        slots = struct.unpack_from(f"={freed + dropped}i", data, _HEAD.size)
        self._outgoing.free(slots[:freed])
        self.incoming.drop(slots[freed:])
        at = 8 * count
        if slot >= 0:
            (sizes,) = self.incoming.views(slot, [at])
            _, *parts = self.incoming.views(slot, [at, *struct.unpack(f"={count}Q", sizes)])
            return Message(kind, bool(names_main), call_id, ns, parts[0], parts[1:])
        parts, begin = [], _HEAD.size + 4 * len(slots)
        at += begin
        for size in struct.unpack_from(f"={count}Q", data, begin):
            parts.append(memoryview(data[at : at + size]))  # a copy of its own, so that arrays are aligned
            at += size
        return Message(kind, bool(names_main), call_id, ns, parts[0], parts[1:])

    def fileno(self) -> int:
        """Its descriptor."""
        return int(self._socket.fileno())

    def hang_up(self) -> None:
        """Let both sides read the end; on any thread."""
        with contextlib.suppress(OSError):  # the other side is gone
            self._socket.shutdown(_socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the descriptor; views keep their memory."""
        self._socket.close()


def send_fds(socket: Any, fds: Sequence[int], data: bytes = b"-") -> None:
    """Send descriptors beside a message. Raises OSError: the other side is gone."""
    socket.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"={len(fds)}i", *fds))], _FLAGS)


def _word(number: int) -> Any:
    """One number of a `Page`, whole under any reader."""

    def read(page: Page) -> int:
        return int(_WORD.unpack_from(page.memory, 8 * number)[0])

    def write(page: Page, value: int) -> None:
        _WORD.pack_into(page.memory, 8 * number, value)

    return property(read, write)


class Page:
    """A page of memory that both sides see: what outlives a worker that is killed."""

    BYTES: Final = mmap.PAGESIZE
    # Arbitrary: a line of a log; the rest of a longer one is cut off.
    _LINE_BYTES: Final = 1024
    _length = _word(2)

    def __init__(self, fd: int) -> None:
        self.memory = mmap.mmap(fd, self.BYTES)

    @classmethod
    def make(cls) -> tuple[Page, int]:
        """Give a new one, and its descriptor; close that."""
        fd = memory_file(cls.BYTES)
        return cls(fd), fd

    #: The call that is to end at its next checkpoint. The parent writes it.
    cancelled = _word(0)
    #: The call that the worker has begun. The worker writes it.
    begun = _word(1)
    #: Process id of a cluster's worker; 0 = there is none. The bridge writes it.
    actor = _word(3)

    @property
    def last_line(self) -> str:
        """What the worker said last on its stderr; "" = nothing. The worker writes it."""
        return self.memory[64 : 64 + min(self._length, self._LINE_BYTES)].decode(errors="replace")

    @last_line.setter
    def last_line(self, line: str) -> None:
        kept = line.encode(errors="replace")[: self._LINE_BYTES]
        self.memory[64 : 64 + len(kept)] = kept
        self._length = len(kept)
