"""Publisher confirms of one channel to RabbitMQ, many in flight: one after the other costs a round trip each."""

from __future__ import annotations

import time
from typing import Any, Final

from amqp.exceptions import MessageNacked

__all__ = ["NUMBER", "Confirms"]


#: A header by which the broker's answer to one message is known from the others'.
NUMBER: Final = "greenlane-number"


class Confirms:
    """Of a channel that only this object publishes on, with the flag `mandatory`.

    Without it RabbitMQ confirms a message that no queue takes, and throws it away. With it RabbitMQ returns the message
    first, and confirms it then.
    """

    def __init__(self, channel: Any) -> None:
        self._connection = channel.connection
        # Messages so far, and those before the last wait. The broker may answer while others are being published.
        self._sent = self._before = 0
        self._open: set[int] = set()
        self._refused: dict[int, Exception] = {}
        channel.confirm_select()
        channel.events["basic_ack"].add(self._confirmed)
        channel.events["basic_nack"].add(self._refuse)
        channel.events["basic_return"].add(self._returned)

    def sending(self) -> str:
        """Count a message that is published now; gives its header `NUMBER`."""
        self._sent += 1
        self._open.add(self._sent)
        return str(self._sent)

    def wait(self, seconds: float) -> dict[int, Exception]:
        """Wait until the broker has answered for all since the last wait; give the places of those it refused."""
        until_s = time.monotonic() + seconds
        while self._open:
            self._connection.drain_events(timeout=max(0.001, until_s - time.monotonic()))
        refused, self._refused = self._refused, {}
        before, self._before = self._before, self._sent
        return {tag - before - 1: error for tag, error in refused.items()}

    def _confirmed(self, tag: int, multiple: bool) -> None:
        self._open -= self._answered(tag, multiple)

    def _refuse(self, tag: int, multiple: bool) -> None:
        refused = self._answered(tag, multiple)
        self._open -= refused
        self._refused |= dict.fromkeys(refused, MessageNacked())

    def _returned(self, error: Exception, _exchange: str, _queue: str, message: Any) -> None:
        self._refused[int(message.headers[NUMBER])] = error

    def _answered(self, tag: int, multiple: bool) -> set[int]:
        return {one for one in self._open if one <= tag} if multiple else {tag}
