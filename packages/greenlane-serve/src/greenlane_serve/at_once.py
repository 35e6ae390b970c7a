"""What is set live, by what the workers measured: requests at once per worker, and routes of lane `apart`.

The rules are greenlane-policy's `at_once` and `apart`. They get their measurements here; the front gets the decisions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from greenlane._native import Apart, AtOnce
from greenlane_serve.group import Group
from greenlane_serve.haproxy.routing import FILE, assigned, change
from greenlane_serve.lanes import APART, SHARED
from greenlane_serve.measured import GroupWork
from greenlane_serve.rounds import Service
from greenlane_serve.settings import ApartRule, AtOnceRule

__all__ = ["Assignment", "Limits", "reason", "word_of"]

_NS_PER_MS: Final = 1_000_000
_UNKNOWN: Final = "unknown"


class Limits:
    """The numbers of all groups.

    Args:
        threads: whether a worker has no more places than threads (WSGI).
    """

    def __init__(self, *, threads: bool) -> None:
        self._threads = threads
        self._known: dict[str, tuple[AtOnceRule, AtOnce]] = {}

    def look(self, service: Service, worked: Mapping[str, GroupWork]) -> None:
        """Set what should be, by what each group did since the last call; one of which nothing is known is left out."""
        if not service.places.live:
            self._known.clear()
            return
        for name, group in service.groups.items():
            if name in worked:
                self._look(service, group, worked[name])

    def _look(self, service: Service, group: Group, worked: GroupWork) -> None:
        rule = AtOnceRule.of(service.settings, threads=self._threads)
        before = service.places.at_once(group.name)
        if group.name not in self._known or self._known[group.name][0] != rule:
            self._known[group.name] = rule, AtOnce(**dataclasses.asdict(rule), first=before)
        known = self._known[group.name][1]
        known.had(worked.ran_ns, worked.starved_ns)
        closed = known.look(worked.worked_ns, worked.held_ns, worked.ended)
        if known.number() != before:
            service.set_at_once(group, known.number(), reason(known, rule))
        elif closed:
            service.places.explain(group.name, reason(known, rule))


def reason(known: AtOnce, rule: AtOnceRule) -> str:
    """Why the number is what it is: the rule's word, a colon, the same in words."""
    why, cpu_ns, io_ns, stretch = known.why()
    if why == _UNKNOWN:
        return f"{why}: too few requests yet"
    meant = {
        "model": "this many keep a worker busy",
        "backstop": f"fewer than keep a worker busy, since they stay {stretch:.2g} times as long as that takes",
        "least": f"fewer would do; at_once_min is {rule.least}",
        "most": f"more would be of use; the least of at_once_max, threads and limit is {rule.most}",
    }[why]
    return f"{why}: {cpu_ns / _NS_PER_MS:.3g} ms CPU and {io_ns / _NS_PER_MS:.3g} ms I/O a request; {meant}"


def word_of(why: str) -> str:
    """The word before the colon; `setting` or `unknown` for reasons that are not of here."""
    word, colon, _ = why.partition(":")
    return word if colon else "setting" if word.startswith("setting") else _UNKNOWN


# Routes that are kept from going with others; the rule knows as many. Arbitrary.
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

    def look(self, service: Service, worked: Mapping[str, GroupWork]) -> None:
        """Assign what should be, by what the shared workers, and those of lane `apart`, did since the last call.

        Raises:
            ServeError: the front does not answer. The next call tries again.
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
