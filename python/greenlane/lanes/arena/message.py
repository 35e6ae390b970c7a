"""Messages between a worker and its parent, and the two ends of the memory that they refer to.

    header   kind, whether the body is inline, whether it names `__main__`, number of buffers, call id, deadline or 0
    body     where each buffer is; length of the pickle; the pickle; the small buffers, one after the other

A body of up to 32 kB stands in the message itself; a longer one lies in a block like a large buffer. Large buffers are
copied into blocks of the sender's segment; what finds no room there goes into a memory file of its own, which the
receiver unmaps when nobody looks into it any more. So room in the segment decides how fast, never whether.

A block belongs to its receiver until the last view of it is gone, which clears its flag (`_native.Block`); the sender
takes such blocks back when it next needs room. So a result may be kept for ever: it costs its own block.
"""

from __future__ import annotations

import enum
import os
import struct
from collections.abc import Sequence
from typing import Any, Final

from greenlane._native import Channel, Segment
from greenlane.lanes.arena.blocks import Blocks, aligned
from greenlane.lanes.arena.memory import memory_file
from greenlane.lanes.arena.parcel import SMALL_BYTES, Parcel, unpack

__all__ = ["Inbox", "Kind", "Letter", "Outbox"]

# Copied twice through the kernel at some 10 GB/s: cheaper than a block up to here.
INLINE_BYTES: Final = 32 << 10
_HEADER: Final = struct.Struct("<BBHIQQ")
# Where (below), flag word, offset, length.
_PLACE: Final = struct.Struct("<IIQQ")
_LENGTH: Final = struct.Struct("<Q")
_BLOCK, _FILE, _SMALL = range(3)
_MAIN: Final = b"__main__"


class Kind(enum.IntEnum):
    """What a message is."""

    CALL = 1
    RESULT = 2
    ERROR = 3
    READY = 4


class Outbox:
    """The sending end. One message at a time."""

    def __init__(self, data: Segment, control: Segment, words: Sequence[int], files: Channel) -> None:
        self._data = data
        self._control = control
        self._files = files
        self._blocks = Blocks(data.size)
        self._free_words = list(words)
        # Flag word -> offset of its block.
        self._lent: dict[int, int] = {}
        # Messages that needed a file of their own.
        self.overflows = 0

    @property
    def lent_bytes(self) -> int:
        """What the receiver holds, as far as it is known: blocks are taken back when room is needed."""
        return self._blocks.taken_bytes

    def message(self, kind: Kind, call_id: int, extra: int, parcel: Parcel) -> bytes:
        """Put the parcel's large parts where the receiver finds them; give the message that says where.

        Send it at once: the descriptor of a memory file may be under way.

        Raises:
            OSError: no memory file could be made. Nothing is under way.
        """
        buffers = parcel.buffers
        text = parcel.pickle
        if not buffers and len(text) <= INLINE_BYTES:
            return _HEADER.pack(kind, 1, _MAIN in text, 0, call_id, extra) + text
        return self._large(kind, call_id, extra, parcel)

    def _large(self, kind: Kind, call_id: int, extra: int, parcel: Parcel) -> bytes:
        self._take_back()
        placing = _Placing(self)
        try:
            body = _body(parcel, placing) if parcel.buffers else parcel.pickle
            if inline := len(body) <= INLINE_BYTES:
                tail = body
            else:
                tail = placing.place(memoryview(body))
            placing.send_file(self._files)
        except BaseException:
            placing.undo()
            raise
        return _HEADER.pack(kind, inline, _MAIN in parcel.pickle, len(parcel.buffers), call_id, extra) + tail

    def lend(self, buffer: memoryview) -> tuple[int, int] | None:
        """Copy into a block and set its flag: the word and the offset. None when there is no room or no flag."""
        if not self._free_words or (offset := self._blocks.take(buffer.nbytes)) is None:
            return None
        word = self._free_words.pop()
        self._lent[word] = offset
        self._control.store(word, 1)
        self._data.write(offset, buffer)
        return word, offset

    def cancel(self, word: int) -> None:
        """Say that the receiver will never see this block."""
        self._control.store(word, 0)

    def _take_back(self) -> None:
        load = self._control.load
        for word in [word for word in self._lent if not load(word)]:
            self._blocks.give_back(self._lent.pop(word))
            self._free_words.append(word)


class _Placing:
    """Where the parts of one message go."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._words: list[int] = []
        # What found no room, with its offset in the file.
        self._rest: list[tuple[int, memoryview]] = []
        self._rest_bytes = 0

    def place(self, buffer: memoryview) -> bytes:
        if lent := self._outbox.lend(buffer):
            word, offset = lent
            self._words.append(word)
            return _PLACE.pack(_BLOCK, word, offset, buffer.nbytes)
        offset = self._rest_bytes
        self._rest.append((offset, buffer))
        self._rest_bytes += aligned(buffer.nbytes)
        return _PLACE.pack(_FILE, 0, offset, buffer.nbytes)

    def send_file(self, files: Channel) -> None:
        if not self._rest:
            return
        self._outbox.overflows += 1
        fd = memory_file(self._rest_bytes)
        try:
            for offset, buffer in self._rest:
                _write_all(fd, buffer, offset)
            files.send_fd(fd)
        finally:
            os.close(fd)

    def undo(self) -> None:
        for word in self._words:
            self._outbox.cancel(word)


def _body(parcel: Parcel, placing: _Placing) -> bytes:
    places, smalls = [], []
    for buffer in parcel.buffers:
        if buffer.nbytes < SMALL_BYTES:
            places.append(_PLACE.pack(_SMALL, 0, 0, buffer.nbytes))
            smalls.append(buffer)
        else:
            places.append(placing.place(buffer))
    return b"".join([*places, _LENGTH.pack(len(parcel.pickle)), parcel.pickle, *smalls])


def _write_all(fd: int, buffer: memoryview, offset: int) -> None:
    # write(2) takes at most 2 GB at a time.
    while buffer.nbytes:
        written = os.pwrite(fd, buffer, offset)
        buffer = buffer[written:]
        offset += written


class Letter:
    """A message that has come, and whatever it refers to, which it holds."""

    __slots__ = ("buffers", "call_id", "extra", "kind", "names_main", "text")

    def __init__(self, head: tuple[int, int, int, int, int, int], text: bytes | memoryview, buffers: list[Any]) -> None:
        self.kind, _, self.names_main, _, self.call_id, self.extra = head
        self.text = text
        self.buffers = buffers

    def open(self) -> Any:
        """Make the object that was sent. Raises whatever its unpickling raises."""
        return unpack(self.text, self.buffers)

    def drop(self) -> None:
        """Let go of what it refers to; the object that was made of it keeps what it needs."""
        self.text = b""
        self.buffers = []


class Inbox:
    """The receiving end."""

    def __init__(self, data: Segment, control: Segment, files: Channel, *, writable: bool) -> None:
        self._data = data
        self._control = control
        self._files = files
        self._writable = writable
        # Messages that came with a file of their own.
        self.overflows = 0

    def close(self) -> None:
        """Let go of the channel of memory files, which the outbox uses too."""
        self._files.close()

    def letter(self, message: bytes) -> Letter:
        """Read a message. Call it for each that comes: a descriptor may be waiting for it."""
        head = _HEADER.unpack_from(message)
        _, inline, _, count, _, _ = head
        if inline and not count:
            return Letter(head, memoryview(message)[_HEADER.size :], [])
        reading = _Reading(self._data, self._control, self._files, writable=self._writable)
        tail = memoryview(message)[_HEADER.size :]
        body = tail if inline else memoryview(reading.large(*_PLACE.unpack(tail)))
        if not count:
            self.overflows += reading.file is not None
            return Letter(head, body, [])
        text, buffers = reading.split(body, count)
        self.overflows += reading.file is not None
        return Letter(head, text, buffers)


class _Reading:
    """The parts of one message."""

    def __init__(self, data: Segment, control: Segment, files: Channel, *, writable: bool) -> None:
        self._data = data
        self._control = control
        self._files = files
        self._writable = writable
        self.file: Segment | None = None

    def large(self, where: int, word: int, offset: int, length: int) -> Any:
        if where == _BLOCK:
            return self._data.block(offset, length, self._control, word)
        return self._opened_file().part(offset, length)

    def split(self, body: memoryview, count: int) -> tuple[memoryview, list[Any]]:
        at = count * _PLACE.size
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        text = body[at : at + length]
        at += length
        # Arrays on bytes are read-only, on a bytearray they are not: the small are as the large.
        own = bytearray if self._writable else bytes
        buffers: list[Any] = []
        for where, word, offset, size in _PLACE.iter_unpack(body[: count * _PLACE.size]):
            if where == _SMALL:
                buffers.append(own(body[at : at + size]))
                at += size
            else:
                buffers.append(self.large(where, word, offset, size))
        return text, buffers

    def _opened_file(self) -> Segment:
        if self.file is None:
            fd = self._files.receive_fd()
            assert fd is not None, "a memory file is sent before the message that refers to it"
            try:
                self.file = Segment(fd, writable=self._writable)
            finally:
                os.close(fd)
        return self.file
