"""Shared memory between a worker and its parent: files without a name, gone with the last process that has them.

A *slot* is such a file, mapped by both from its first message on. Its sender fills it; the receiver's arrays look into
it. Once none of them is left, the receiver says so with its next message, and the sender fills it again. Why again: in
fresh memory the kernel zeroes and faults in every page, which costs several times the copying.

Why no `multiprocessing.shared_memory`: names in /dev/shm, which Docker keeps at 64 MB (beyond it: SIGBUS), which a kill
-9 leaves behind, and which a resource tracker, a process of its own, looks after.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["Incoming", "Outgoing", "memory_file"]

# Nobody can cut a file off under somebody else's mapping (which would be a SIGBUS), or make it larger.
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
# Pages that are never touched cost nothing: a slot is larger than what it was made for.
_LEAST_BYTES: Final = 1 << 20
# Free slots that are kept, and their largest size. Arbitrary: two calls' worth of what is usual.
_MOST_FREE: Final = 4
_LARGEST_FREE_BYTES: Final = 64 << 20
_ALIGN: Final = 64


def memory_file(size: int) -> int:
    """Give the descriptor of a new memory file of `size` bytes, all zero; close it.

    Pages cost memory from when they are first written. No limit of /dev/shm applies, that of the memory cgroup does.
    """
    fd = os.memfd_create("greenlane", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Outgoing:
    """The slots that this side fills."""

    def __init__(self) -> None:
        self._slots: dict[int, mmap.mmap] = {}
        self._free: list[int] = []
        self._count = 0
        #: Slots that the receiver may forget.
        self.dropped: list[int] = []

    def fill(self, buffers: Sequence[bytes | memoryview]) -> tuple[int, int]:
        """Copy buffers into a slot: gives its number, and its descriptor if it is new (close it), else -1.

        Raises:
            OSError: no memory file could be made.
        """
        needed = sum(_room(len(buffer)) for buffer in buffers)
        fitting = [number for number in self._free if len(self._slots[number]) >= needed]
        fd = -1
        if fitting:
            # Of equal ones the last that was freed: the caches may still have it.
            number = min(reversed(fitting), key=lambda number: len(self._slots[number]))
            self._free.remove(number)
        else:
            number, fd = self._add(needed)
        memory, at = memoryview(self._slots[number]), 0
        for buffer in buffers:
            memory[at : at + len(buffer)] = buffer
            at += _room(len(buffer))
        return number, fd

    def free(self, numbers: Iterable[int]) -> None:
        """Take back slots: those that the receiver sees no more, and (-1 - number) those that it keeps for good."""
        for number in numbers:
            if number < 0:
                del self._slots[-1 - number]
                continue
            self._free.append(number)
            if len(self._slots[number]) > _LARGEST_FREE_BYTES:
                self._drop(number)
            elif len(self._free) > _MOST_FREE:
                self._drop(min(self._free, key=lambda number: len(self._slots[number])))

    def _drop(self, number: int) -> None:
        self._free.remove(number)
        del self._slots[number]
        self.dropped.append(number)

    def _add(self, needed: int) -> tuple[int, int]:
        size = max(1 << (needed - 1).bit_length(), _LEAST_BYTES)
        fd = memory_file(size)
        try:
            self._slots[self._count] = mmap.mmap(fd, size)
        except BaseException:
            os.close(fd)
            raise
        self._count += 1
        return self._count - 1, fd


class Incoming:
    """The slots that the other side fills."""

    def __init__(self) -> None:
        self._slots: dict[int, _Slot] = {}
        self._seen: set[int] = set()
        # How often this process forked, and of how many forks the other side knows.
        self._forks = self._told_forks = 0

    def add(self, number: int, fd: int) -> None:
        """Map a new slot; its descriptor is closed."""
        try:
            self._slots[number] = _Slot(fd)
        finally:
            os.close(fd)

    def views(self, number: int, sizes: Iterable[int]) -> list[memoryview]:
        """Give what stands in a slot; writable."""
        memory, at, found = memoryview(self._slots[number].memory), 0, []
        self._seen.add(number)
        for size in sizes:
            found.append(memory[at : at + size])
            at += _room(size)
        return found

    def unseen(self) -> list[int]:
        """Give the slots that nothing looks into now; see `Outgoing.free`."""
        if not self._seen:
            return []
        forks = -1
        while forks != self._forks:  # again if another thread has forked meanwhile
            forks = self._forks
            shared = forks != self._told_forks
            gone = [number for number in self._seen if shared or self._slots[number].is_alone()]
        self._told_forks = forks
        self._seen.difference_update(gone)
        if not shared:
            return gone
        for number in gone:
            del self._slots[number]  # the views keep its memory
        return [-1 - number for number in gone]

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget slots."""
        for number in numbers:
            del self._slots[number]

    def share(self) -> None:
        """Let a forked child have what its copies of our views look into: it is not filled again."""
        self._forks += 1


class _Slot:
    def __init__(self, fd: int) -> None:
        self.memory = mmap.mmap(fd, os.fstat(fd).st_size)
        self._alone = self._references()

    def is_alone(self) -> bool:
        """Whether there is no view: each holds a reference to what it is a view of."""
        return self._references() <= self._alone

    def _references(self) -> int:
        return sys.getrefcount(self.memory)


def _room(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
