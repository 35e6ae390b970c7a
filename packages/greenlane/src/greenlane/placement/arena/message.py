"""What messages between a worker and its parent are, and the two ends that carry them (`_native.Outbox`, `Inbox`)."""

from __future__ import annotations

from typing import Any, Final

from greenlane._native import Channel, Inbox, Outbox, Segment
from greenlane.placement.arena.memory import memory_file

__all__ = ["CALL", "ERROR", "READY", "RESULT", "Inbox", "Letter", "Outbox", "ends"]

# Kinds. Plain numbers: reading a member of an enum costs more than all that is done with it.
CALL: Final = 1
RESULT: Final = 2
ERROR: Final = 3
READY: Final = 4

#: Kind, whether it names `__main__`, call id, deadline or 0, pickle, buffers.
Letter = tuple[int, bool, int, int, Any, list[Any]]


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
