"""Copies of messages to the broker, confirmed: what is handed back or dead is first safe there, then acknowledged here.

A connection of its own, on a thread (or greenlet) of its own: a confirmation takes milliseconds, and minutes when the
broker is gone; the owner of the channel waits for neither. What cannot be published now is tried again until it can,
or until its original is no longer ours (`still`). While the broker is away all letters wait; a letter that the broker
refuses (no right to declare its queue, headers beyond a frame) is set aside, and the others go on.

What waits to be published goes together, and is confirmed together: ten thousand orders whose time is far off would
otherwise keep those behind them in the queue waiting for ten thousand round trips.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final

from kombu import Connection, Queue

from greenlane_work.worker.confirms import NUMBER, Confirms

__all__ = ["Letter", "Publisher"]

_log = logging.getLogger("greenlane.work")

#: Between two attempts to connect. Arbitrary: a broker is back within some seconds.
_PAUSE_S: Final = 1.0
#: Between two attempts at a letter that the broker refuses: it doubles from `_PAUSE_S` up to this. Arbitrary.
_ASIDE_MOST_S: Final = 60.0
#: After this many refusals a letter is sent without its optional parts.
_TRIMMED_FROM: Final = 2
#: A confirmation that takes longer is a lost one. Arbitrary.
_CONFIRM_S: Final = 10
#: Letters that are published together. Arbitrary: a connection lost meanwhile may double as many.
_TOGETHER: Final = 128
#: Headers that the broker writes, about the way that a message came.
_OF_THE_BROKER: Final = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "compression", NUMBER)


@dataclass
class Letter:
    """A copy of a message, with other headers, to a queue."""

    message: Any
    queue: Queue
    headers: Mapping[str, object]
    #: Asked before each attempt: is the original still ours to settle?
    still: Callable[[], bool]
    #: Called on the publisher's thread: True = the broker has it, False = it was no longer to be published.
    done: Callable[[bool], object]
    #: Names of headers that it can do without, where it is too big with them.
    spare: tuple[str, ...] = ()
    failures: int = field(default=0)


#: Something else to do with the publisher's connection.
Visit = Callable[[Connection], object]


class Publisher:
    """Publishes letters in their order. `confirms`: by RabbitMQ's own way, which is switched on here."""

    def __init__(self, connect: Callable[[], Connection], *, confirms: bool) -> None:
        self._connect = connect
        self._confirms = confirms
        # Letters, and names of visits; None = the end.
        self._letters: SimpleQueue[Letter | str | None] = SimpleQueue()
        self._visits: dict[str, Visit] = {}
        self._declared: set[str] = set()
        self._connection: Connection | None = None
        self._producer: Any = None
        self._confirming: Confirms | None = None
        # What was taken from the queue and is not to go together with what was before it.
        self._next_one: list[Letter | str | None] = []
        # Letters that were refused: (when to try again, monotonic s; a number; the letter).
        self._aside: list[tuple[float, int, Letter]] = []
        # The last visit failed, and that was logged.
        self._told = False
        self._started = False
        self._stopping = False
        self.published = 0

    def publish(self, letter: Letter) -> None:
        """Publish it soon; never blocks."""
        self._start()
        self._letters.put(letter)

    def visit(self, name: str, visit: Visit) -> None:
        """Let it use the connection, on the publisher's thread, in place of one of this name that still waits for that.

        What it raises is logged, once until one succeeds.
        """
        self._start()
        self._visits[name] = visit
        self._letters.put(name)

    def stop(self) -> None:
        """End after the letter that is being published; the others get False."""
        self._stopping = True
        self._letters.put(None)

    def _start(self) -> None:
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="greenlane-publisher", daemon=True).start()

    def _run(self) -> None:
        while (letter := self._next()) is not None:
            if isinstance(letter, Letter):
                self._deliver(self._together(letter))
            else:
                self._let_in(letter)
        for _, _, letter in self._aside:
            letter.done(False)
        self._close()

    def _next(self) -> Letter | str | None:
        while True:
            if self._next_one:
                return self._next_one.pop()
            left_s = self._aside[0][0] - time.monotonic() if self._aside else None
            if left_s is not None and left_s <= 0:
                return heapq.heappop(self._aside)[2]
            try:
                return self._letters.get(timeout=left_s)
            except Empty:
                pass

    def _together(self, letter: Letter) -> list[Letter]:
        """Give it, and what waits behind it. One that was refused goes alone, so that no other fails with it."""
        letters = [letter]
        while not letter.failures and len(letters) < _TOGETHER:
            try:
                more = self._letters.get_nowait()
            except Empty:
                break
            if not isinstance(more, Letter):
                self._next_one.append(more)
                break
            letters.append(more)
        return letters

    def _let_in(self, name: str) -> None:
        visit = self._visits.pop(name, None)
        if visit is None:
            return  # made already, at the name of the one that it replaced
        try:
            visit(self._connected())
            self._told = False
        except Exception as error:
            self._close()
            if not self._told:
                self._told = True
                _log.warning("not yet possible at the broker: %s: %r", name, error)

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = self._connect()
            connection.ensure_connection(max_retries=1, timeout=_CONFIRM_S)
            producer = connection.Producer()
            self._confirming = Confirms(producer.channel) if self._confirms else None
            self._connection, self._producer = connection, producer
        return self._connection

    def _deliver(self, letters: list[Letter]) -> None:
        """Publish them, or set them aside; the broker is waited for."""
        letters = self._when_connected(letters)
        if not letters:
            return
        try:
            refused = self._send(letters)
        except Exception as error:
            self._close()
            if len(letters) == 1:
                self._set_aside(letters[0], error)
                return
            for letter in letters:  # nobody knows which of them it was
                self._deliver([letter])
            return
        for place, letter in enumerate(letters):
            if place in refused:
                # Its queue may have been deleted: it is declared again before the next attempt.
                self._declared.discard(letter.queue.name)
                self._set_aside(letter, refused[place])
            else:
                self.published += 1
                letter.done(True)

    def _when_connected(self, letters: list[Letter]) -> list[Letter]:
        """Wait for the broker; give the letters that are still to be published then."""
        told = False
        while letters := self._wanted(letters):
            try:
                self._connected()
                break
            except Exception as error:
                if not told:
                    told = True
                    _log.warning("an order cannot be handed to %s yet: %r", letters[0].queue.name, error)
                time.sleep(_PAUSE_S)
        return letters

    def _wanted(self, letters: list[Letter]) -> list[Letter]:
        """Give those that are still to be published."""
        wanted = []
        for letter in letters:
            if letter.still() and not self._stopping:
                wanted.append(letter)
            else:
                letter.done(False)
        return wanted

    def _set_aside(self, letter: Letter, error: Exception) -> None:
        letter.failures += 1
        if letter.failures == 1:
            _log.warning("an order cannot be handed to %s yet: %r", letter.queue.name, error)
        pause_s = min(_PAUSE_S * 2.0 ** min(letter.failures - 1, 10), _ASIDE_MOST_S)
        heapq.heappush(self._aside, (time.monotonic() + pause_s, id(letter), letter))

    def _send(self, letters: list[Letter]) -> dict[int, Exception]:
        """Publish them and wait until the broker has them; give the places of those that it refused."""
        for letter in letters:
            self._declare(letter.queue)
        if self._confirming is None:
            with getattr(self._producer.channel, "together", contextlib.nullcontext)():
                for letter in letters:
                    self._publish(letter)
            return {}
        for letter in letters:
            self._publish(letter, {NUMBER: self._confirming.sending()}, mandatory=True)
        return self._confirming.wait(_CONFIRM_S)

    def _publish(self, letter: Letter, own: Mapping[str, str] | None = None, **more: object) -> None:
        message = letter.message
        kept = {name: value for name, value in message.headers.items() if not name.startswith(_OF_THE_BROKER)}
        headers = {**kept, **letter.headers, **(own or {})}
        if letter.failures >= _TRIMMED_FROM:
            headers = {name: value for name, value in headers.items() if name not in letter.spare}
        properties = dict(message.properties or {})
        options = {
            name: properties[name] for name in ("correlation_id", "reply_to", "priority") if properties.get(name)
        }
        self._producer.publish(
            message.body,
            exchange="",
            routing_key=letter.queue.name,
            headers=headers,
            content_type=message.content_type or "application/data",
            content_encoding=message.content_encoding or "binary",
            delivery_mode=2,
            **options,
            **more,
        )

    def _declare(self, queue: Queue) -> None:
        if queue.name not in self._declared and not queue.no_declare:
            connection = self._connected()
            with connection.channel() as channel:
                try:
                    # One that is there is taken as it is: somebody may want other arguments than we.
                    queue(channel).queue_declare(passive=True)
                except connection.channel_errors:
                    queue(channel).queue_declare()
            self._declared.add(queue.name)

    def _close(self) -> None:
        connection, self._connection, self._producer, self._confirming = self._connection, None, None, None
        self._declared.clear()
        if connection is not None:
            try:
                connection.close()
            except Exception:
                _log.debug("the publisher's connection did not close well", exc_info=True)
