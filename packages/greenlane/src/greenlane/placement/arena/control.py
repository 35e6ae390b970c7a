"""The words that a worker and its parent share beside the data: who cancels, what runs, which blocks are in use.

One small memory file a worker, mapped writable by both; each word has one writer, but for the flags of blocks: their
sender sets one, their receiver clears it.
"""

from __future__ import annotations

from typing import Any, Final

from greenlane._native import Segment

__all__ = ["ARGUMENT_WORDS", "BEGUN", "CANCEL", "CONTROL_BYTES", "RESULT_WORDS", "last_line", "write_last_line"]

# Written by the parent: the call that is to end at its next checkpoint.
CANCEL: Final = 0
# Written by the worker: the call that it has begun.
BEGUN: Final = 1
# Written by the worker: length of the last line on its stderr, which follows from byte 64 on.
_LAST_LINE: Final = 2
_LAST_LINE_OFFSET: Final = 64
# Arbitrary: a line of a log; the rest of a longer one is cut off.
_LAST_LINE_BYTES: Final = 1024
# A flag a block, so at most so many blocks at once in each direction. What does not get one travels in a memory file of
# its own.
_FLAGS: Final = 1024
ARGUMENT_WORDS: Final = range(256, 256 + _FLAGS)
RESULT_WORDS: Final = range(ARGUMENT_WORDS.stop, ARGUMENT_WORDS.stop + _FLAGS)
CONTROL_BYTES: Final = RESULT_WORDS.stop * 8


def write_last_line(control: Segment, line: bytes) -> None:
    """Keep what a worker said last where it survives the worker."""
    line = line[:_LAST_LINE_BYTES]
    control.write(_LAST_LINE_OFFSET, line)
    control.store(_LAST_LINE, len(line))


def last_line(control: Segment) -> str:
    """Give what the worker said last; "" = nothing."""
    length = min(control.load(_LAST_LINE), _LAST_LINE_BYTES)
    part: Any = control.part(_LAST_LINE_OFFSET, length)
    return bytes(part).decode(errors="replace")
