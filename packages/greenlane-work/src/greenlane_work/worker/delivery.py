"""One delivery of a message, and how its outcome is reported to the broker.

A delivery's tag belongs to one channel: once its connection is gone the broker has put the message back, and what is
said of the old tag would at best be an error. Such words are counted and dropped; one line is logged for all of them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenlane_work.worker.redis_leases import Leases

__all__ = ["Delivery", "Line"]

_log = logging.getLogger("greenlane.work")


class Line:
    """The connection to the broker, as far as deliveries care: which one it is, and what was said in vain."""

    def __init__(self) -> None:
        # Counts connections; a delivery of an earlier one is stale.
        self.epoch = 0
        self.acked = 0
        self.requeued = 0
        self.stale = 0
        self._told = 0
        self.errors: tuple[type[BaseException], ...] = (OSError,)
        # Redis: what this worker has, whatever becomes of a connection. None = the broker takes it back with that.
        self.leases: Leases | None = None

    def lost(self) -> None:
        """Say that the connection is gone, and every delivery with it."""
        self.epoch += 1

    def count_late_settlement(self) -> None:
        """Count a word that came too late."""
        self.stale += 1
        if self._told != self.epoch:
            self._told = self.epoch
            _log.warning(
                "the connection to the broker was lost: what ended since is acknowledged when it is delivered again"
            )


class Delivery:
    """A message, and the connection that it came by. Used by the owner of the channel only."""

    __slots__ = ("_line", "epoch", "message", "settled")

    def __init__(self, message: Any, line: Line) -> None:
        self.message = message
        self._line = line
        self.epoch = line.epoch
        self.settled = False

    @property
    def stale(self) -> bool:
        """Its connection is gone, or it is no longer ours at Redis: the broker has the message, not we."""
        return self.epoch != self._line.epoch or self.message.channel is None

    def ack(self) -> bool:
        """Say that the message is done with; False: the broker did not hear it and will deliver it again."""
        if not self.settled and self._say(self.message.ack):
            self._line.acked += 1
            return True
        return False

    def requeue(self) -> bool:
        """Give the message back to its queue."""
        if not self.settled and self._say(self.message.requeue):
            self._line.requeued += 1
            return True
        return False

    def _say(self, word: Any) -> bool:
        if self.stale or self.message.acknowledged:
            self.settled = True
            if self.stale:
                self._line.count_late_settlement()
            return False
        self.settled = True
        try:
            word()
        except self._line.errors:
            # The loop meets the same loss at its next read, and then it is counted once for all.
            self._line.count_late_settlement()
            return False
        return True
