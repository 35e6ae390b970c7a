"""The line of a holder: where it was seen, else where the application's function for its route begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from greenlane_tools.report.culprits import CodeSpot, frames, spots
from greenlane_tools.report.subject import RecordedRows

__all__ = ["HolderLines"]

#: What a recording marks a route's function with.
_HANDLER: Final = "handler "


class HolderLines:
    """Lines by route."""

    def __init__(self, recording: RecordedRows) -> None:
        """Look for those that are asked for often."""
        self._recording = recording
        self._spots = spots(recording.stacks)
        self._handlers = _handlers(recording.marks)

    def while_waited(self, who: str) -> CodeSpot | None:
        """Where it was most while others waited."""
        return self._spots.get(who)

    def computed(self, who: str) -> CodeSpot | None:
        """Where its jobs computed most."""
        return spots(self._own(who)).get(who)

    def blocked(self, who: str, within: str = "") -> CodeSpot | None:
        """Where its jobs were in calls that block; `within` a function."""
        rows = [row for row in self._recording.blocked if row.route == who and within in row.stack]
        return spots([(row.route, row.stack, row.ns) for row in rows]).get(who)

    def of(self, who: str, cause: str) -> CodeSpot | None:
        """That of a holder which does what `cause` says."""
        if cause == "blocks":
            held = [(row.route, row.stack, row.ns) for row in self._recording.held if row.route == who]
            spot = spots(held).get(who) or self._spots.get(who)
        elif cause in ("waits", "client", "queue"):
            spot = self.blocked(who)
        else:
            spot = self._spots.get(who) or self.computed(who)
        handler = self._handlers.get(who)
        if spot is None or not spot.after_handler:
            return spot or handler
        # What encodes is the framework's; the line that a team can change is the handler's.
        rows = [(row.culprit, row.stack, row.ns) for row in self._recording.stacks if row.culprit == who]
        rows = [row for row in (*rows, *self._own(who)) if any(not frame.library for frame in frames(row[1]))]
        own = spots(rows).get(who) or handler
        return own._replace(call=spot.frame.function, after_handler=True) if own else spot

    def _own(self, who: str) -> list[tuple[str, str, int]]:
        return [(row.route, row.stack, row.cpu_ns or row.looks) for row in self._recording.own if row.route == who]


def _handlers(marks: Iterable[tuple[int, int, str]]) -> dict[str, CodeSpot]:
    """By route: where the application's function for it begins."""
    found = {}
    for _, _, what in marks:
        route, _, line = what.removeprefix(_HANDLER).partition("\n")
        for frame in frames(line)[:1] if what.startswith(_HANDLER) else ():
            found[route] = CodeSpot(frame, "", frame.coroutine, False)
    return found
