"""Room of a segment, given out and taken back: first fit from the bottom.

Pure: no memory is touched. Why from the bottom: pages that were used are used again, so a segment costs as much memory
as was ever in use at once, not its size; and a page that has been written is not zeroed anew by the kernel.
"""

from __future__ import annotations

from bisect import insort
from typing import Final

__all__ = ["ALIGNMENT_BYTES", "Blocks", "aligned"]

# A cache line, and what Arrow recommends for its buffers.
ALIGNMENT_BYTES: Final = 64


def aligned(length: int) -> int:
    """`length` rounded up to whole cache lines; nothing takes one."""
    return max(-(-length // ALIGNMENT_BYTES), 1) * ALIGNMENT_BYTES


class Blocks:
    """Who has which bytes of `size`. Not thread-safe. Cost: linear in the number of holes, which are few."""

    def __init__(self, size: int) -> None:
        self._size = size
        # (offset, length) of each hole, by offset; no two touch.
        self._holes: list[tuple[int, int]] = [(0, size)]
        self._taken: dict[int, int] = {}
        # What is given out now, rounding included.
        self.taken_bytes = 0

    def take(self, length: int) -> int | None:
        """Give the offset of `length` bytes, a multiple of 64; None when no hole is large enough."""
        length = aligned(length)
        for index, (offset, room) in enumerate(self._holes):
            if room >= length:
                if room == length:
                    del self._holes[index]
                else:
                    self._holes[index] = (offset + length, room - length)
                self._taken[offset] = length
                self.taken_bytes += length
                return offset
        return None

    def give_back(self, offset: int) -> None:
        """Take back what `take` gave at `offset`, and join it with the holes that it touches."""
        length = self._taken.pop(offset)
        self.taken_bytes -= length
        insort(self._holes, (offset, length))
        index = self._holes.index((offset, length))
        self._join(index)
        if index:
            self._join(index - 1)

    def _join(self, index: int) -> None:
        if index + 1 < len(self._holes):
            (offset, length), (following, room) = self._holes[index : index + 2]
            if offset + length == following:
                self._holes[index : index + 2] = [(offset, length + room)]
