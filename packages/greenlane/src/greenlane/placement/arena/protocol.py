"""What passes between a worker and its parent: the first message, those after it, and words that both share.

Messages go through `_native.Outbox` and `Inbox`. The words lie in one small memory file a worker, mapped writable by
both: who cancels, what runs, which blocks are in use. Each has one writer, except the flags of blocks: their sender
sets one, their receiver clears it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from greenlane._native import Channel, Inbox, Outbox, Segment
from greenlane.placement.arena.memory import memory_file

__all__ = [
    "ARGUMENT_WORDS",
    "BEGUN",
    "CALL",
    "CANCEL",
    "CHANNEL_FD",
    "CONTROL_BYTES",
    "ERROR",
    "FILES_FD",
    "READY",
    "RESULT",
    "RESULT_WORDS",
    "START",
    "Inbox",
    "Letter",
    "Outbox",
    "Start",
    "ends",
    "last_line",
    "write_last_line",
]

# Descriptors that a worker begins with.
CHANNEL_FD = 3
FILES_FD = 4
#: Of the messages' call ids, which count from 1: what concerns the worker's start.
START = 0

# Kinds of messages. Plain numbers: reading a member of an enum costs more than all that is done with it.
CALL: Final = 1
RESULT: Final = 2
ERROR: Final = 3
READY: Final = 4

#: Kind, whether it names `__main__`, call id, deadline or 0, pickle, buffers.
Letter = tuple[int, bool, int, int, Any, list[Any]]

# Words. Written by the parent: the call that is to end at its next checkpoint.
CANCEL: Final = 0
# Written by the worker: the call that it has begun.
BEGUN: Final = 1
# Written by the worker: length of the last line on its stderr, which follows from byte 64 on.
_LAST_LINE: Final = 2
_LAST_LINE_OFFSET: Final = 64
# Arbitrary: a line of a log; the rest of a longer one is cut off.
_LAST_LINE_BYTES: Final = 1024
# One flag for each block: at most this many blocks in each direction. What does not get one travels in a memory file of
# its own.
_FLAGS: Final = 1024
ARGUMENT_WORDS: Final = range(256, 256 + _FLAGS)
RESULT_WORDS: Final = range(ARGUMENT_WORDS.stop, ARGUMENT_WORDS.stop + _FLAGS)
CONTROL_BYTES: Final = RESULT_WORDS.stop * 8


@dataclasses.dataclass(frozen=True)
class Start:
    """The first message, pickled. Five memory files come with it: control, arguments, results, crash, shared."""

    # Name of the function to call before the first call; "" = none.
    warm_up: str
    # Whether arguments may be written to.
    writable: bool
    # Largest result.
    most_bytes: int
    # The program's arguments, which its main module may look at.
    argv: tuple[str, ...]
    # How multiprocessing finds the program's main module again: key and value for its `prepare`; "" = there is none.
    main_key: str
    main_value: str


def ends(
    sent: Segment,
    received: Segment,
    control: Segment,
    words: range,
    channel: Channel,
    files: Channel,
    *,
    shows: Segment | None = None,
    sees: Segment | None = None,
) -> tuple[Outbox, Inbox]:
    """Give the two ends of one side.

    Args:
        sent: the memory that this side writes.
        received: the memory that the other side writes; what it is mapped as (read-only or not) is how things arrive.
        control: the words that both share.
        words: which of them are this side's flags.
        channel: carries the messages.
        files: carries the descriptors of memory files, for what finds no room.
        shows: what lies in this memory is not copied when it is sent: the other side sees it.
        sees: such memory of the other side's.
    """
    outbox = Outbox(sent, control, (words.start, words.stop), channel, files, memory_file, shows)
    return outbox, Inbox(received, control, channel, files, sees)


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
