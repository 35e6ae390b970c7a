"""What-ifs: changes of what requests do, how many come, or how they are served; of the profile and the set-up.

    --cpu quote=0.5x         its CPU; without a route: of all
    --rate 2x                how many come (also bikes=2x)
    --split bikes            processes of its own (also bikes,scooters=2: two of them)

A route may be named by a word of it (`bikes` for `GET /v1/bikes/price`) where only one has it. Everything is pure: the
profile and the set-up that come in stay as they are. What was measured does not describe a changed profile, so
it goes; what was changed stands in its notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.plan.profile import Profile, told_dispersion
from greenlane_tools.plan.route import Route, Step, joined
from greenlane_tools.plan.route import Sequence as Steps
from greenlane_tools.plan.set_up import SetUp, SetUpLane

_COMPUTES: Final = frozenset({"cpu", "free"})
_TIMES: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*x", re.IGNORECASE)
_ATTEMPTED: Final = "read a what-if"


@dataclass(frozen=True, slots=True)
class Change:
    """One what-if.

    Args:
        said: what it changes, in words; ends without a full stop.
        profile: from the profile to the changed one.
        set_up: likewise.
    """

    said: str
    profile: Callable[[Profile], Profile]
    set_up: Callable[[SetUp], SetUp]

    def apply(self, profile: Profile, set_up: SetUp) -> tuple[Profile, SetUp]:
        """Both changed."""
        changed = self.profile(profile)
        if changed is not profile:
            # What its seconds could tell from chance still holds without them: the very same requests come.
            told = told_dispersion(profile.arrivals.dispersion, profile.seconds)
            changed = replace(
                changed,
                arrivals=replace(changed.arrivals, dispersion=told),
                measured={},
                seconds=0.0,
                notes=(*profile.notes, f"What if: {self.said}."),
            )
        return changed, self.set_up(set_up)


def applied(changes: Sequence[Change], profile: Profile, set_up: SetUp) -> tuple[Profile, SetUp]:
    """All of them, one after the other."""
    for change in changes:
        profile, set_up = change.apply(profile, set_up)
    return profile, set_up


def asked(
    profile: Profile, *, cpu: Sequence[str] = (), rate: Sequence[str] = (), split: Sequence[str] = ()
) -> tuple[Change, ...]:
    """What-ifs from the texts of their options, in this order.

    Raises: PlanError that names option, text, what is expected, and what may have been meant.
    """
    readers: tuple[tuple[Callable[[Profile, str], Change], Sequence[str]], ...] = (
        (_cpu, cpu), (_rate, rate), (_split, split),
    )  # fmt: skip
    return tuple(read(profile, text) for read, texts in readers for text in texts)


def _cpu(profile: Profile, text: str) -> Change:
    names, times = _named(profile, "--cpu", text)

    def change(profile: Profile) -> Profile:
        return _of_routes(profile, names, lambda route: _computing(route, times))

    return Change(f"{_whose(names)} CPU times {times:.3g}", change, _same)


def _rate(profile: Profile, text: str) -> Change:
    names, times = _named(profile, "--rate", text)

    def change(profile: Profile) -> Profile:
        changed = _of_routes(profile, names, lambda route: replace(route, rate_per_s=route.rate_per_s * times))
        total = sum(route.rate_per_s for route in changed.routes)
        return replace(changed, arrivals=replace(profile.arrivals, rate_per_s=total))

    return Change(f"{_whose(names)} rate times {times:.3g}", change, _same)


def _split(profile: Profile, text: str) -> Change:
    given, equals, number = text.partition("=")
    processes = _whole("--split", text, number, 1, 10_000) if equals else 1
    names = tuple(dict.fromkeys(_route(profile, "--split", text, each.strip()).route for each in given.split(",")))
    if len(names) == len(profile.routes):
        raise _wrong("--split", text, "some of the routes, not all")
    word = re.sub(r"[^a-z0-9]+", "-", given.split(",")[0].strip().lower()).strip("-") or "apart"

    def laned(set_up: SetUp) -> SetUp:
        kept = (
            replace(lane, routes=tuple(route for route in lane.routes if route not in names)) for lane in set_up.lanes
        )
        lane = SetUpLane(word, names, "hard", processes)
        return replace(set_up, lanes=(*(each for each in kept if each.routes and each.name != word), lane))

    has = "have" if len(names) > 1 else "has"
    whose = "a process" if processes == 1 else f"{processes} processes"
    return Change(f"{_listed(names)} {has} {whose} alone", lambda profile: profile, laned)


def _same(set_up: SetUp) -> SetUp:
    return set_up


def _of_routes(profile: Profile, names: tuple[str, ...], change: Callable[[Route], Route]) -> Profile:
    routes = tuple(change(route) if not names or route.route in names else route for route in profile.routes)
    return replace(profile, routes=routes)


def _computing(route: Route, times: float) -> Route:
    """Its sequences with this many times the CPU, and its exact means likewise."""
    mean = route.mean and replace(route.mean, cpu_ms=route.mean.cpu_ms * times, free_ms=route.mean.free_ms * times)
    return replace(route, sequences=tuple(_scaled(each, times) for each in route.sequences), mean=mean)


def _scaled(steps: Steps, times: float) -> Steps:
    """A sequence is never empty: one without any work waits for no time."""
    scaled = (replace(step, ms=step.ms * times) if step.kind in _COMPUTES else step for step in steps.steps)
    return replace(steps, steps=joined(scaled) or (Step("io", 0.0),))


def _named(profile: Profile, option: str, text: str) -> tuple[tuple[str, ...], float]:
    """The routes that `[ROUTE=]2x` names, () = all, and the factor."""
    name, equals, rest = text.rpartition("=")
    found = _TIMES.fullmatch(rest.strip())
    if found is None:
        raise _wrong(option, text, "how many times as much, such as 0.5x, for one route such as bikes=2x")
    if not equals or name.strip() == "*":
        return (), float(found[1])
    return (_route(profile, option, text, name.strip()).route,), float(found[1])


def _route(profile: Profile, option: str, text: str, name: str) -> Route:
    found = profile.called(name)
    if len(found) == 1:
        return found[0]
    if found:
        rule = f"one route; {name} is in {_listed([route.route for route in found[:5]])}"
        raise _wrong(option, text, rule, "write the whole name")
    known = ", ".join(route.route for route in profile.routes[:8])
    raise _wrong(option, text, f"a route of the profile: {known}", profile.nearest(name))


def _whole(option: str, text: str, number: str, low: int, high: int) -> int:
    word = number.strip()
    if not (word.isascii() and word.isdecimal() and low <= int(word) <= high):
        raise _wrong(option, text, f"a whole number from {low} to {high:,}")
    return int(word)


def _whose(names: tuple[str, ...]) -> str:
    return f"{_listed(names)}:" if names else "all requests:"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _wrong(option: str, text: str, rule: str, hint: str = "") -> PlanError:
    return PlanError(_ATTEMPTED, name=option, value=text, rule=rule, hint=hint)
