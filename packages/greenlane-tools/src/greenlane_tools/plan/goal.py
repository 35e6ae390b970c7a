"""What is wanted of latency, read from the words that people use for it.

    bikes p99.9 <= 500ms            of 1,000 requests of the route that has this word, 999 within 500 ms
    bikes 99.9 % within 500 ms      the same
    GET /quote 99 % in time         within the route's own deadline
    p99 <= 1s                       every route; also `* p99 <= 1s`

Several goals stand behind each other with `;` between them, or come one by one. All of them must be met. Whatever the
words, a goal is one thing: a share of a route's requests that is answered well within a time, counted from arrival. A
request that is refused, or that fails, is not.

How sure one may be of it depends on the profile: p99.9 of a route of which 800 requests were seen is a guess, and no
plan is made on a guess (`greenlane_tools.plan.seen`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.page.quantities import milliseconds
from greenlane_tools.plan.profile import Profile, Route

__all__ = ["FORMS", "Goal", "goals", "level_said", "usual_goals"]

#: For messages.
FORMS: Final = "ROUTE p99.9 <= 500ms, ROUTE 99.9 % within 500ms, or ROUTE 99.9 % in time"
_ATTEMPT: Final = "read the goal"
_NUMBER: Final = r"\d+(?:\.\d+)?"
_PERCENTILE: Final = re.compile(rf"(?P<who>.*?)\s*\bp(?P<level>{_NUMBER})\s*(?P<sign>[<>=≤≥]+)\s*(?P<time>.*)")
_WITHIN: Final = re.compile(rf"(?P<who>.*?)\s*\b(?P<share>{_NUMBER})\s*%\s*within\s*(?P<time>.*)")
_IN_TIME: Final = re.compile(rf"(?P<who>.*?)\s*\b(?P<share>{_NUMBER})\s*%\s*in\s+time")
_MEAN: Final = re.compile(r"\b(mean|average|avg)\b")
_TIME: Final = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>ms|s|min)")
_UNITS_MS: Final = {"ms": 1.0, "s": 1000.0, "min": 60_000.0}
_AT_MOST: Final = ("<=", "<", "≤")
_ALL: Final = ("", "*", "all", "all routes")
_MOST_MS: Final = 3_600_000.0
#: The default percentile, and how many times the route's own time it may be.
_USUAL_SHARE: Final = 0.99
_USUAL_TIMES: Final = 2.0
#: A request so short is not waited for: below it "twice as long" is noise.
_LEAST_LIMIT_MS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of one route.

    Args:
        route: its whole name.
        share: of its requests, that is answered well within the limit; 0 to 1, both without.
        limit_ms: from arrival.
    """

    route: str
    share: float
    limit_ms: float

    def said(self) -> str:
        """As people write it."""
        return f"{self.route} {level_said(self.share)} <= {milliseconds(self.limit_ms)}"


def goals(texts: Iterable[str], profile: Profile) -> tuple[Goal, ...]:
    """The goals that texts name, each route and limit once.

    Raises: PlanError, with what may have been meant.
    """
    found: dict[tuple[str, float], Goal] = {}
    for text in texts:
        for part in filter(None, (each.strip() for each in text.split(";"))):
            for goal in _read(part, profile):
                before = found.get((goal.route, goal.limit_ms))
                if before is None or before.share < goal.share:
                    found[goal.route, goal.limit_ms] = goal
    return tuple(found.values())


def usual_goals(profile: Profile) -> tuple[tuple[Goal, ...], str]:
    """Default goals, and a sentence that says which were taken: deadlines, else "no more than twice what
    the requests themselves take"."""
    due = [route for route in profile.routes if route.deadline_ms]
    if due:
        chosen = tuple(Goal(route.route, _USUAL_SHARE, float(route.deadline_ms or 0)) for route in due)
        return (
            chosen,
            f"No goal was given: taken is that {100 * _USUAL_SHARE:.0f} % of the requests meet their deadlines.",
        )
    taken = tuple(Goal(route.route, _USUAL_SHARE, _twice_ms(route)) for route in profile.routes)
    text = (
        f"No goal was given and no deadline is known: taken is that {level_said(_USUAL_SHARE)} of each route stays "
        f"below {_USUAL_TIMES:g} times what its own requests take without any wait."
    )
    return taken, text


def level_said(share: float) -> str:
    """ "p99.9" for 0.999."""
    return f"p{share * 100:.6g}"


def _read(text: str, profile: Profile) -> Sequence[Goal]:
    if found := _PERCENTILE.fullmatch(text):
        if found["sign"] not in _AT_MOST:
            raise _error(
                text, "<= before the time", f"write {found['who'].strip()} p{found['level']} <= {found['time']}"
            )
        share, limit_ms = _level(text, found["level"]), _time_ms(text, found["time"])
        return [Goal(route.route, share, limit_ms) for route in _named(text, found["who"], profile)]
    if found := _WITHIN.fullmatch(text):
        share, limit_ms = _share(text, found["share"]), _time_ms(text, found["time"])
        return [Goal(route.route, share, limit_ms) for route in _named(text, found["who"], profile)]
    if found := _IN_TIME.fullmatch(text):
        return _in_time(text, _share(text, found["share"]), _named(text, found["who"], profile))
    if _MEAN.search(text):
        raise _error(text, FORMS, "a mean hides the slow requests: name a percentile")
    raise _error(text, FORMS, 'such as --goal "bikes p99.9 <= 500ms"')


def _in_time(text: str, share: float, routes: Sequence[Route]) -> list[Goal]:
    due = [route for route in routes if route.deadline_ms]
    if not due:
        rule = f"a route with a deadline; the profile knows none of {', '.join(route.route for route in routes[:3])}"
        raise _error(
            text, rule, "name a time: 99.9 % within 500ms; or give its deadline_ms in a profile (`plan profile`)"
        )
    return [Goal(route.route, share, float(route.deadline_ms or 0)) for route in due]


def _level(text: str, level: str) -> float:
    """ "99.9", and "999" as it stands in Prometheus's names."""
    if level.startswith("99") and len(level) in (3, 4) and level.strip("9") == "":
        level = f"99.{level[2:]}"
    return _share(text, level)


def _share(text: str, percent: str) -> float:
    share = float(percent) / 100
    if not 0 < share < 1:
        raise _error(text, "a percentile above 0 and below 100", "p99.9: of 1,000 requests one may be slower")
    return round(share, 12)


def _time_ms(text: str, time: str) -> float:
    found = _TIME.fullmatch(time.strip())
    if found is None:
        raise _error(
            text, "a time with its unit at the end: 500ms, 1.5s", f"{time.strip() or 'nothing'} has none of ms, s"
        )
    ms = float(found["number"]) * _UNITS_MS[found["unit"]]
    if not 0 < ms <= _MOST_MS:
        raise _error(text, "a time above 0 and up to an hour")
    return ms


def _named(text: str, who: str, profile: Profile) -> Sequence[Route]:
    who = who.strip()
    if who in _ALL:
        return profile.routes
    found = profile.called(who)
    if len(found) > 1:
        rule = f"one route; {who} is in {', '.join(route.route for route in found[:5])}"
        raise _error(text, rule, "write the whole name, or give each its own goal")
    if not found:
        known = ", ".join(route.route for route in profile.routes[:8])
        raise _error(text, f"a route of the profile: {known}", profile.nearest(who))
    return found


def _twice_ms(route: Route) -> float:
    alone = sorted((sum(step.ms for step in each.steps), each.weight) for each in route.sequences)
    wanted, seen = _USUAL_SHARE * math.fsum(weight for _, weight in alone), 0.0
    longest = 0.0
    for ms, weight in alone:
        longest, seen = ms, seen + weight
        if seen >= wanted - 1e-9:
            break
    return max(_LEAST_LIMIT_MS, float(f"{_USUAL_TIMES * longest:.2g}"))


def _error(text: str, rule: str, hint: str = "") -> PlanError:
    return PlanError(_ATTEMPT, name="--goal", value=text, rule=rule, hint=hint)
