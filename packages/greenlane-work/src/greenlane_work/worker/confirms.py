"""Publisher confirms of one channel to RabbitMQ, many in flight: one after the other costs a round trip each."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Confirms"]


class Confirms:
    """Of a channel that only this object publishes on."""

    def __init__(self, channel: Any) -> None:
        self._connection = channel.connection
        # Messages so far, and those before the last wait. The broker may answer while others are being published.
        self._sent = self._before = 0
        self._open: set[int] = set()
        self._refused: set[int] = set()
        channel.confirm_select()
        channel.events["basic_ack"].add(self._confirmed)
        channel.events["basic_nack"].add(self._refuse)

    def sent(self) -> None:
        """Count a message that was published."""
        self._sent += 1
        self._open.add(self._sent)

    def wait(self, seconds: float) -> list[int]:
        """Wait until the broker has answered for all since the last wait; give the places of those it refused."""
        until_s = time.monotonic() + seconds
        while self._open:
            self._connection.drain_events(timeout=max(0.001, until_s - time.monotonic()))
        refused, self._refused = sorted(self._refused), set()
        before, self._before = self._before, self._sent
        return [tag - before - 1 for tag in refused]

    def _confirmed(self, tag: int, multiple: bool) -> None:
        self._open -= self._answered(tag, multiple)

    def _refuse(self, tag: int, multiple: bool) -> None:
        refused = self._answered(tag, multiple)
        self._open -= refused
        self._refused |= refused

    def _answered(self, tag: int, multiple: bool) -> set[int]:
        return {one for one in self._open if one <= tag} if multiple else {tag}
