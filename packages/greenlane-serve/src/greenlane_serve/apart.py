"""`auto_lane`, `auto_last`: routes that compute for long go to lane `apart`, live; later perhaps back.

The rule is core's `apart`; here it gets what the workers measured, and the front gets its routes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from greenlane._native import Apart
from greenlane.policy import ApartRule
from greenlane_serve.haproxy.assigned import FILE, assigned, change
from greenlane_serve.lanes import APART
from greenlane_serve.layout import SHARED
from greenlane_serve.limits import Worked
from greenlane_serve.rounds import Service

__all__ = ["Assignment"]

# Routes that are kept from going with others; core knows as many. Arbitrary.
_MOST_ROUTES: Final = 1024


class Assignment:
    """The routes of lane `apart`."""

    def __init__(self) -> None:
        self._known: tuple[ApartRule, Apart] | None = None
        self._routes: set[str] = set()
        self._there: list[tuple[str, str]] | None = []
        self._said: set[str] = set()

    @property
    def apart(self) -> list[tuple[str, int]]:
        """(route, mean CPU of a request in ns)."""
        return [] if self._known is None else self._known[1].routes()

    def look(self, service: Service, worked: Mapping[str, Worked]) -> None:
        """Assign what should be, by what the shared workers, and those of lane `apart`, did since the last call.

        Raises:
            FleetError: the front does not answer. The next call tries again.
        """
        if not any(lane.auto for lane in service.layout.lanes):
            self._known = None
            return
        rule = ApartRule.of(service.settings)
        if self._known is None or self._known[0] != rule:
            self._known = rule, Apart(**dataclasses.asdict(rule))
        groups = {SHARED, *(service.layout.group_of(lane) for lane in service.layout.lanes if lane.auto)}
        rows = [row for name in sorted(groups & worked.keys()) for row in worked[name].ended]
        self._known[1].look(rows)
        if len(self._routes) < _MOST_ROUTES:
            self._routes.update(row[0] for row in rows)
        apart = {route for route, _ in self.apart}
        wanted = assigned(APART, sorted(apart), sorted(self._routes - apart))
        if wanted != self._there:
            self._there = None
            change(service.folder / FILE, wanted, service.front.runtime)
            self._there = wanted
        if apart != self._said:
            self._said = apart
            named = ", ".join(f"{route} ({cpu_ns / 1e6:.3g} ms CPU)" for route, cpu_ns in self.apart)
            service.say(f"lane {APART}: {named or 'no route'}")
