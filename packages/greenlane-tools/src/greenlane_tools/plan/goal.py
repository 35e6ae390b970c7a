"""What is wanted of latency, read from the words that people use for it.

    bikes p99.9 <= 500ms            of 1,000 requests of the route that has this word, 999 within 500 ms
    bikes 99.9 % within 500 ms      the same
    GET /quote 99 % in time         within the route's own deadline
    p99 <= 1s                       every route; also `* p99 <= 1s`

Several goals stand behind each other with `;` between them, or come one by one. All of them must be met. Whatever the
words, a goal is one thing: a share of a route's requests that is answered well within a time, counted from arrival. A
request that is refused, or that fails, is not.

How sure one may be of it depends on the profile: p99.9 of a route of which 800 requests were seen is a guess, and no
plan is made on a guess (`greenlane_tools.plan.goal`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.page.quantities import count, milliseconds
from greenlane_tools.plan.profile import Profile, carried
from greenlane_tools.plan.route import Route

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
        share, limit_ms = _share_of(text, found["share"]), _time_ms(text, found["time"])
        return [Goal(route.route, share, limit_ms) for route in _named(text, found["who"], profile)]
    if found := _IN_TIME.fullmatch(text):
        return _in_time(text, _share_of(text, found["share"]), _named(text, found["who"], profile))
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
    return _share_of(text, level)


def _share_of(text: str, percent: str) -> float:
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


# --- What was recorded of a goal: its percentile, its share in time, both with intervals, and whether that is enough.


_TAIL: Final = 0.025
_Z: Final = 1.96
#: A lower percentile is no goal.
_LOWEST: Final = 50


@dataclass(frozen=True, slots=True)
class Share:
    """A share and the ends of its 95 % interval."""

    at: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What was recorded of one goal.

    Args:
        latency_ms: at the goal's percentile; its interval of 95 % is from `low_ms` to `high_ms`, None = above all.
        within: share of the requests that took at most the goal's limit.
    """

    goal: Goal
    samples: int
    latency_ms: float
    low_ms: float
    high_ms: float | None
    within: Share

    @property
    def missed(self) -> bool:
        """Whether the recorded requests missed the goal."""
        return self.within.at < self.goal.share

    @property
    def surely_missed(self) -> bool:
        """Whether chance alone does not explain that."""
        return self.within.high < self.goal.share

    @property
    def surely_met(self) -> bool:
        """Whether the recorded requests met the goal, beyond chance."""
        return self.within.low >= self.goal.share

    def said(self) -> str:
        """A sentence."""
        high = f"more than {milliseconds(self.latency_ms)}" if self.high_ms is None else milliseconds(self.high_ms)
        came = "missed" if self.missed else "met"
        if self.missed and not self.surely_missed:
            came = "missed, but that may be chance"
        return (
            f"Recorded: {self.goal.route} {level_said(self.goal.share)} {milliseconds(self.latency_ms)} "
            f"[{milliseconds(self.low_ms)} to {high}], {per_cent(self.within.at)} of {count(self.samples)} requests "
            f"within {milliseconds(self.goal.limit_ms)} [{per_cent(self.within.low)} to {per_cent(self.within.high)}]: "
            f"the goal is {came}."
        )


def seen(goal: Goal, profile: Profile) -> Seen | None:
    """What the recording has of it; None = it has no latencies of this route."""
    measured = profile.measured.get(goal.route)
    if measured is None or not measured.samples:
        return None
    number = measured.samples
    within = measured.within_frac(goal.limit_ms) or 0.0
    beyond = 1 - goal.share
    slowest = _below(number, beyond, 1 - _TAIL)
    fastest = _below(number, beyond, _TAIL) - 1
    return Seen(
        goal,
        number,
        measured.ranked_ms(math.ceil(goal.share * number - 1e-9)),
        measured.ranked_ms(max(1, number - slowest)),
        measured.ranked_ms(number - fastest) if fastest >= 0 else None,
        _share(within, number),
    )


def enough(goal: Goal, profile: Profile) -> bool:
    """Whether the requests that were seen carry its percentile; of a model written by hand all is known."""
    return profile.source == "model" or carried(goal.share, profile.route(goal.route).requests)


def needed(goals: Sequence[Goal], profile: Profile) -> str:
    """How many requests goals take that are not carried, and how to get them; goals is not empty."""
    goal = max(goals, key=lambda each: _wanted(each) / max(1, profile.route(each.route).requests))
    route = profile.route(goal.route)
    wanted = _wanted(goal)
    seconds = math.ceil(1.1 * wanted / route.rate_per_s) if route.rate_per_s else 0
    others = f" (and of {len(goals) - 1} more)" if len(goals) > 1 else ""
    how = f": record for {_span(seconds)} at this load (greenlane record --seconds {seconds})" if seconds else ""
    highest = math.floor(100 - 1000 / route.requests) if route.requests else 0
    carry = f" They carry a goal of at most p{highest}." if highest >= _LOWEST else ""
    return (
        f"Too few requests to plan for {level_said(goal.share)}: {count(route.requests)} of {goal.route}{others} were "
        f"seen, it takes {count(wanted)}{how}.{carry}{_known(route, profile)}"
    )


def _known(route: Route, profile: Profile) -> str:
    """What its time was, on average, which few requests tell as well."""
    measured, mean = profile.measured.get(route.route), route.demand
    if measured is None or not measured.samples:
        return ""
    whole_ms, cpu_ms, io_ms = measured.sum_ms / measured.samples, mean.cpu_ms + mean.free_ms, mean.io_ms + mean.held_ms
    waits_ms = max(0.0, whole_ms - cpu_ms - io_ms)
    return (
        f" On average one took {milliseconds(whole_ms)}: {milliseconds(cpu_ms)} CPU, {milliseconds(io_ms)} I/O, and "
        f"{milliseconds(waits_ms)} of waiting (`greenlane report` says for what)."
    )


def per_cent(share: float) -> str:
    """A share near one as people tell nines apart: "99.95 %", "99.9 %", "100 %"."""
    if not math.isfinite(share):
        return "-"
    places = 1 if share < 0.99 else 2 if share < 0.9995 else 3
    return f"{share * 100:.{places}f} %" if share < 1 else "100 %"


def _wanted(goal: Goal) -> int:
    return math.ceil(10 / (1 - goal.share) - 1e-6)


def _span(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _below(number: int, chance: float, wanted: float) -> int:
    """The least k with P(K <= k) >= wanted, of K successes in this many trials."""
    log_odds = math.log(chance) - math.log1p(-chance)
    log_p = number * math.log1p(-chance)
    total = math.exp(log_p)
    k = 0
    while total < wanted and k < number:
        log_p += math.log(number - k) - math.log(k + 1) + log_odds
        k += 1
        total += math.exp(log_p)
    return k


def _share(at: float, number: int) -> Share:
    square = _Z**2 / number
    middle = at + square / 2
    half = math.sqrt(square * (at * (1 - at) + square / 4))
    return Share(at, max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square)))
