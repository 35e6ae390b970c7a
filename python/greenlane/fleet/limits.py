"""`at_once` set live: how many requests each worker of a group gets at once, from what its requests do.

The rule is core's `at_once`; here it gets what the workers measured, and the front gets its number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from greenlane._native import AtOnce
from greenlane.fleet.group import Group, State
from greenlane.fleet.measured import Ended
from greenlane.fleet.rounds import Service
from greenlane.policy import AtOnceRule

__all__ = ["Limits", "reason"]

_NS_PER_MS: Final = 1_000_000


class Limits:
    """The numbers of all groups.

    Args:
        threads: whether a worker has no more places than threads (WSGI).
    """

    def __init__(self, *, threads: bool) -> None:
        self._threads = threads
        self._known: dict[str, tuple[AtOnceRule, AtOnce]] = {}

    def look(self, service: Service, now_ns: int, ended: Mapping[str, Sequence[Ended]]) -> None:
        """Set what should be, by what has ended since the last call in each group.

        Raises:
            FleetError: the front does not answer.
        """
        if not service.places.live:
            self._known.clear()
            return
        for name, group in service.groups.items():
            self._look(service, group, now_ns, ended.get(name, ()))

    def _look(self, service: Service, group: Group, now_ns: int, ended: Sequence[Ended]) -> None:
        rule = AtOnceRule.of(service.settings, threads=self._threads)
        before = service.places.at_once(group.name)
        if group.name not in self._known or self._known[group.name][0] != rule:
            self._known[group.name] = rule, AtOnce(**dataclasses.asdict(rule), first=before)
        known = self._known[group.name][1]
        closed = known.look(now_ns, len(group.of(State.SERVING)), list(ended))
        if known.number() != before:
            service.set_at_once(group, known.number(), reason(known, rule))
        elif closed:
            service.places.explain(group.name, reason(known, rule))


def reason(known: AtOnce, rule: AtOnceRule) -> str:
    """Why the number is what it is, in words."""
    why, cpu_ns, io_ns, stretch = known.why()
    if why == "unknown":
        return "nothing is measured yet"
    does = f"{cpu_ns / _NS_PER_MS:.3g} ms CPU and {io_ns / _NS_PER_MS:.3g} ms I/O a request"
    meant = {
        "model": "so many keep a worker busy",
        "backstop": f"fewer than keep a worker busy: latency is {stretch:.2g} times CPU and I/O as they usually are",
        "least": f"fewer would do; at_once_min is {rule.least}",
        "most": f"more would be of use; {rule.most} is the least of at_once_max, threads and limit",
    }
    return f"{does}: {meant[why]}"
