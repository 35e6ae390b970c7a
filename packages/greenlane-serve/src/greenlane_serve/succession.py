"""One line-up after another: the next boots beside the one that serves, and the one before ends what it has.

Used when a reload changes what the front must know: lanes, groups, processes, addresses. The front before goes on with
the workers that it knows, on sockets of their own, until its clients have gone to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from greenlane_serve.group import Group, State
from greenlane_serve.lineup import Lineup

__all__ = ["Succession"]

# Workers of a group that may die in a row before the first has served: then the application does not start.
_FIRST_TRIES: Final = 3


class Succession:
    """Line-ups beside the one that serves.

    Args:
        dismiss: called with each group whose workers have all ended.
    """

    def __init__(self, dismiss: Callable[[Group], None]) -> None:
        self.coming: Lineup | None = None
        self._dismiss = dismiss
        # With the time at which it must have ended what it has.
        self._before: list[tuple[Lineup, float]] = []
        self._ending: list[Group] = []

    def begin(self, lineup: Lineup, now_s: float) -> None:
        """Boot the workers of a next line-up; one that was on its way ends."""
        self.give_up(now_s)
        self.coming = lineup

    def give_up(self, now_s: float) -> Lineup | None:
        """End the line-up that is on its way; it."""
        given_up, self.coming = self.coming, None
        if given_up is not None:
            self._end(given_up, now_s)
        return given_up

    def leave(self, lineup: Lineup, until_s: float) -> None:
        """Let a line-up end what it has: the front before it still sends to it."""
        self._before.append((lineup, until_s))

    def step(self, now_s: float, *, fronts_leave: bool) -> None:
        """Move all of them on.

        Args:
            now_s: the time.
            fronts_leave: a front before the present one is still there.
        """
        if self.coming is not None:
            for group in self.coming.groups.values():
                group.step(now_s)
        for lineup, until_s in list(self._before):
            for group in lineup.groups.values():
                group.step(now_s)  # who dies is replaced: requests are still sent to its socket
            if not fronts_leave or now_s >= until_s:
                self._before.remove((lineup, until_s))
                self._end(lineup, now_s)
        for group in list(self._ending):
            group.step_stopping(now_s)
            if group.of(State.EMPTY) == group.slots:
                self._ending.remove(group)
                self._dismiss(group)

    @property
    def ready(self) -> bool:
        """The next one can serve."""
        return self.coming is not None and self.coming.settled

    @property
    def hopeless(self) -> bool:
        """The workers of the next one do not start."""
        groups = self.coming.groups.values() if self.coming else ()
        return any(group.backoff.failures >= _FIRST_TRIES for group in groups)

    @property
    def first_until_s(self) -> float | None:
        """When the first of those before must have ended; None = there is none."""
        return min((until_s for _, until_s in self._before), default=None)

    def groups(self) -> Iterator[Group]:
        """All groups of line-ups other than the present one."""
        for lineup in (*([self.coming] if self.coming else []), *(lineup for lineup, _ in self._before)):
            yield from lineup.groups.values()
        yield from self._ending

    def stop(self, now_s: float) -> None:
        """End them all."""
        self.give_up(now_s)
        for lineup, _ in self._before:
            self._end(lineup, now_s)
        self._before.clear()
        for group in self._ending:
            group.step_stopping(now_s)

    def _end(self, lineup: Lineup, now_s: float) -> None:
        for group in lineup.groups.values():
            group.stop(now_s)
            self._ending.append(group)
