"""Lanes of the settings, applied to jobs: deadlines and limits at arrival, pins and modes of new routes."""

from __future__ import annotations

import functools
from collections.abc import Callable

from greenlane.settings import Lane, Settings
from greenlane.threads.unpatched import allocate_lock

_NS_PER_MS = 1_000_000
#: Paths whose lane is remembered. Arbitrary: paths beyond it are matched again, at some microseconds a lane.
_REMEMBERED_PATHS = 4096


class LaneRules:
    """What the settings' lanes say of a job, by its path or route."""

    def __init__(self, settings: Settings) -> None:
        """Take the lanes from `settings`."""
        self.any = bool(settings.lanes)
        self.lanes = {lane.name: lane for lane in settings.lanes}
        self._settings = settings
        self.lane_of_path = functools.lru_cache(_REMEMBERED_PATHS)(self._lane_of_path)

    def due_ns(self, path: str, arrival_ns: int) -> int:
        """Give the deadline that a path's lane sets, monotonic ns; 0 = none."""
        return _due_ns(self.lane_of_path(path), arrival_ns)

    def due_ns_of(self, name: str, arrival_ns: int) -> int:
        """Give the deadline that a lane sets by its name, monotonic ns; 0 = none."""
        return _due_ns(self.lanes.get(name), arrival_ns)

    def apply_to(self, route: str, pin: Callable[[str, str], None], set_mode: Callable[[str, str], None]) -> None:
        """Pin a route and set its mode as its lane says; called once, when the route is first seen."""
        path = route.partition(" ")[2]
        lane = self._settings.lane(route, path)
        if lane is None:
            return
        if lane.weight != "auto":
            pin(route, lane.weight)
        if lane.mode:
            set_mode(lane.mode, route)

    def _lane_of_path(self, path: str) -> Lane | None:
        return self._settings.lane("", path)


def _due_ns(lane: Lane | None, arrival_ns: int) -> int:
    return arrival_ns + round(lane.deadline_ms * _NS_PER_MS) if lane and lane.deadline_ms else 0


class LaneLimits:
    """Counts jobs in progress a lane and refuses those over its limit."""

    def __init__(self, rules: LaneRules, settings: Settings) -> None:
        """Take limits from `settings`; `any` is False when no lane has one."""
        self.any = any(lane.limit for lane in settings.lanes)
        self._rules = rules
        self._in_progress = dict.fromkeys((lane.name for lane in settings.lanes), 0)
        self._mutex = allocate_lock()

    def admit(self, path: str, named: str | None = None) -> str | None:
        """Count a job in. Gives its lane's name, "" when no limit applies, None when it is refused.

        Args:
            path: of the request.
            named: its lane, where somebody has told it ("" = none); else the path says it.
        """
        lane = self._rules.lane_of_path(path) if named is None else self._rules.lanes.get(named)
        if lane is None or not lane.limit:
            return ""
        with self._mutex:
            if self._in_progress[lane.name] >= lane.limit:
                return None
            self._in_progress[lane.name] += 1
        return lane.name

    def end(self, lane_name: str) -> None:
        """Count a job of `admit`'s lane out."""
        if lane_name:
            with self._mutex:
                self._in_progress[lane_name] = max(self._in_progress[lane_name] - 1, 0)

    def forked(self) -> None:
        """Start over in a forked child: other threads' jobs are not its own."""
        self._mutex = allocate_lock()
        self._in_progress = dict.fromkeys(self._in_progress, 0)
