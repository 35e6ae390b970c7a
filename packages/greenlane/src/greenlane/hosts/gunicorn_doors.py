"""The worker's listening sockets: when to accept, and when to leave a connection to another worker.

A connection is taken at once by a worker that has room and no more requests in progress than any other with room, and
by anybody when nobody has room. Another worker leaves it alone for a moment. That moment is bounded: the better placed
worker may be descheduled, or starved by its own work, and no connection may stay unaccepted because of a figure.

Source: the idea is Puma's `wait_for_less_busy_worker`, which always waits 5 ms; here only who is not best placed waits.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable
from select import EPOLLIN, epoll
from typing import Any, Final

from greenlane.hosts.gunicorn_board import Place

__all__ = ["Doors"]

# Accepts a turn where no other worker competes for them. Arbitrary: bounds how long a burst keeps kept-alive
# connections waiting.
_BURST: Final = 32
# A worker for which another is better placed looks again after this ...
_YIELD_S: Final = 0.001
# ... and takes the connection after this, when it has room itself or has none.
_PATIENCE_S: Final = 0.005
_PATIENCE_FULL_S: Final = 0.05
# Pause after an accept that failed, most likely for want of descriptors or memory. gthread's worker ends then.
_SHORTAGE_S: Final = 0.2
_CLIENT_GONE: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM})

# (socket, its peer, the listener's address, when) -> whether another connection may come
Welcome = Callable[[Any, Any, Any, int], bool]


class Doors:
    """The listening sockets of one worker.

    Args:
        sockets: gunicorn's listeners.
        poller: where they are watched.
        place: this worker's line on the board.
        reuse_port: each worker has sockets of its own, so none is left to another.
        competes: other workers accept from the same sockets.
        load: (requests in progress, how many count as full) of this worker.
        welcome: takes a connection.
        failed: told when a connection could not be accepted, for want of descriptors or memory.
    """

    def __init__(
        self,
        sockets: Iterable[Any],
        poller: epoll,
        place: Place,
        *,
        reuse_port: bool,
        competes: bool,
        load: Callable[[], tuple[int, int]],
        welcome: Welcome,
        failed: Callable[[OSError], None],
    ) -> None:
        self._doors = {door.fileno(): (door, door.getsockname()) for door in sockets}
        self._poller = poller
        self._place = place
        self._shared = not reuse_port
        self._burst = 1 if competes else _BURST
        self._load = load
        self._welcome = welcome
        self._failed = failed
        # Whether the poller watches them.
        self.listening = False
        # No accept before this; 0 = at once.
        self.paused_until_s = 0.0
        self._yielding_since_s = 0.0

    def __contains__(self, fd: int) -> bool:
        return fd in self._doors

    def review(self, wanted: bool, now_s: float) -> None:
        """Listen if connections are wanted and no pause is on."""
        wanted = wanted and self.paused_until_s <= now_s
        if wanted != self.listening:
            self._listen(wanted)

    def come(self, fd: int, now_ns: int) -> None:
        """Accept who stands at a door, or leave them to another worker for a moment."""
        if not self.listening:
            return
        now_s = now_ns / 1e9
        if self._shared and self._yields(now_s):
            self._pause(now_s + _YIELD_S)
        else:
            self._admit(fd, now_ns, self._burst)

    def shut(self, *, let_in: bool) -> None:
        """Close the doors for good; with `let_in`, after all who stand there have been accepted, room or not.

        Who has connected already would be reset when the last process closes the door. Does nothing the second time.
        """
        if self.listening:
            self._listen(False)
        for fd in list(self._doors):
            if let_in:
                while self._admit(fd, time.monotonic_ns(), _BURST):
                    pass
            door, _ = self._doors.pop(fd)
            door.close()

    @property
    def shared(self) -> bool:
        """Whether the arbiter and other workers hold the same sockets."""
        return self._shared

    def _admit(self, fd: int, now_ns: int, most: int) -> bool:
        """Accept up to `most`; whether there was a connection at all."""
        door, address = self._doors[fd]
        for number in range(most):
            try:
                sock, client = door.accept()
            except BlockingIOError:
                return number > 0
            except OSError as error:
                if error.errno in _CLIENT_GONE:
                    continue
                self._failed(error)
                self._pause(now_ns / 1e9 + _SHORTAGE_S)
                return False
            if not self._welcome(sock, client, address, now_ns):
                break
        return True

    def _yields(self, now_s: float) -> bool:
        """Whether the connection at the door is better left to another worker."""
        least = self._place.least_busy()
        if least is None:
            return False  # nobody else has room: all accept
        in_progress, full = self._load()
        room = in_progress < full
        if room and in_progress <= least:
            return False
        if now_s - self.paused_until_s > _YIELD_S:  # not the connection that was left alone a moment ago
            self._yielding_since_s = now_s
        return now_s - self._yielding_since_s < (_PATIENCE_S if room else _PATIENCE_FULL_S)

    def _pause(self, until_s: float) -> None:
        self.paused_until_s = until_s
        if self.listening:
            self._listen(False)

    def _listen(self, wanted: bool) -> None:
        for fd in self._doors:
            if wanted:
                self._poller.register(fd, EPOLLIN)
            else:
                self._poller.unregister(fd)
        self.listening = wanted
