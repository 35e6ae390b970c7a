"""Clients that take their answers too slowly, and hold a worker's place meanwhile."""

from __future__ import annotations

from greenlane.hosts.pace import Pace
from greenlane_serve.haproxy.configuration import PUBLIC
from greenlane_serve.haproxy.runtime import Stream
from greenlane_serve.rounds import Service

__all__ = ["SlowReaders"]


class SlowReaders:
    """A round of the tree, since HAProxy's own time-out starts again with each byte that a client takes.

    Only the time counts in which an answer waited for its client: streams of a silent server go on for ever. A client
    that takes nothing is HAProxy's to end. The kernel may hide for a while what one takes, so it is judged when it has
    taken something.
    """

    #: Pause between two looks, in s.
    every_s = 2.0

    def __init__(self) -> None:
        self._looked_s = 0.0
        # Of the streams that waited at the last look: what their clients had taken.
        self._known: dict[Stream, tuple[int, Pace]] = {}
        # Those that were ended and still have the rest of HAProxy's buffer. They hold no place.
        self._ended: set[Stream] = set()

    def look(self, service: Service, now_s: float) -> None:
        """End streams whose clients have fallen behind by `body_timeout_s`."""
        settings, runtime = service.settings, service.front.runtime
        if not settings.body_bytes_per_s:
            return
        # A longer time is not their fault: the machine was stopped, or a front has started.
        waited_s, self._looked_s = min(now_s - self._looked_s, 2 * self.every_s), now_s
        before, self._known = self._known, {}
        unread = runtime.unread(PUBLIC)
        ended = set()
        self._ended.intersection_update(unread)
        for stream, taken in unread.items():
            if stream in self._ended:
                continue
            at_first = taken, Pace(settings.body_timeout_s, settings.body_bytes_per_s)
            taken_before, pace = before.get(stream, at_first)
            pace.took(taken - taken_before, waited_s if stream in before else 0.0)
            if pace.left_s <= 0 and taken > taken_before:
                runtime.end(stream)
                ended.add(stream)
            else:
                self._known[stream] = taken, pace
        self._ended |= ended
        if ended:
            rate = settings.body_bytes_per_s
            service.say(f"requests ended because their clients read less than {rate} bytes/s: {len(ended)}")
