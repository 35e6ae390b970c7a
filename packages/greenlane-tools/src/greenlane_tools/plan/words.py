"""The advice in words: what to set, what comes of it, how sure that is, how far the cliff is, what else there is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from greenlane_tools.page.quantities import amount, milliseconds
from greenlane_tools.plan.advice import EDGE_TIMES, Advice, AdviceVerdict
from greenlane_tools.plan.cliff import full_load
from greenlane_tools.plan.goal import level_said
from greenlane_tools.plan.measured import LEVELS, carried
from greenlane_tools.plan.options import GoalStanding, Judged, Option, Predicted
from greenlane_tools.plan.sensitivity import HANG, Wrong
from greenlane_tools.plan.simulation import Estimate

__all__ = ["COLUMNS", "answers", "breaks_said", "per_cent", "rows_of", "table_of", "way_said"]

Row = dict[str, object]

#: Of the table for people.
COLUMNS: Final = ("way", "cost", "goals", "worst", "breaks at", "what it is")
#: One, and several.
_UNITS: Final = {
    "cores": ("core", "cores"), "memory": ("MB", "MB"), "processes": ("process", "processes"),
    "changes": ("of effort", "of effort"),
}  # fmt: skip
_CAUSES: Final = {
    "queue": "for a process", "cpu": "for the CPU (GIL, loop)", "permit": "for a permit",
    "upstream": "for a busy upstream", "placed": "for where its work is placed",
}  # fmt: skip
#: Of the time of requests; less is not worth naming.
_WORTH_FRAC: Final = 0.02
#: A share that reads as 0.1 %; what is less would read as none.
_SHOWN_FRAC: Final = 0.0005
_STANDING: Final = {GoalStanding.MET: "met", GoalStanding.CLOSE: "at the edge", GoalStanding.MISSED: "missed"}


def answers(advice: Advice) -> list[str]:
    """The sentences, what matters most first."""
    return [*_verdict(advice), *advice.notes]


def table_of(advice: Advice) -> list[Row]:
    """A row an option, for people."""
    return [
        {
            "way": option.candidate.name + _mark(advice, option),
            "cost": _cost(advice, option),
            "goals": _STANDING[option.at.standing],
            "worst": _short(option.at.worst) if option.at.settled else "never settles",
            "breaks at": breaks_said(advice, option),
            "what it is": way_said(advice, option),
        }
        for option in advice.options
    ]


def rows_of(advice: Advice) -> list[Row]:
    """For programs: the whole, each option with its goals, each route of the named ones, each way to be wrong."""
    named = {
        "present": advice.present, "recommended": advice.recommended, "runner_up": advice.runner_up,
        "stock": advice.stock,
    }  # fmt: skip
    whole: Row = {
        "view": "advice",
        "verdict": advice.verdict.value,
        "goals": [goal.said() for goal in advice.goals],
        "cost": advice.cost,
        **{name: option.candidate.name if option else None for name, option in named.items()},
        "jobs": advice.jobs,
        "seed": advice.seed,
        "said": answers(advice),
        "bounds": list(advice.bounds),
        "set_up": advice.recommended.set_up.to_json() if advice.recommended else None,
    }
    rows = [whole]
    rows += [row for option in advice.options for row in _option_rows(advice, option)]
    shown = {option.candidate.name: option for option in named.values() if option}
    rows += [row for option in shown.values() for row in _route_rows(option)]
    rows += [row for option in advice.options for row in _curve_rows(option)]
    rows += [
        {
            "view": "wrong", "name": wrong.name, "said": wrong.said, "contender": name,
            "standing": wrong.standing(name).value, "worst_ms": _finite(run.worst.latency_ms),
            "endpoint": run.worst.goal.route, "within_frac": _finite(run.worst.within.at),
        }
        for wrong in advice.wrong
        for name, run in wrong.options.items()
    ]  # fmt: skip
    return rows


def per_cent(share: float) -> str:
    """A share near one as people tell nines apart: "99.95 %", "99.9 %", "100 %"."""
    if not math.isfinite(share):
        return "-"
    places = 1 if share < 0.99 else 2 if share < 0.9995 else 3
    return f"{share * 100:.{places}f} %" if share < 1 else "100 %"


def way_said(advice: Advice, option: Option) -> str:
    """What a way to serve is, after "serve it with"."""
    if advice.what_if and advice.present is not None and option.candidate.name == advice.present.candidate.name:
        return "what it has, with the what-if alone"
    return option.candidate.said


def breaks_said(advice: Advice, option: Option) -> str | None:
    """The load at which a goal breaks; None = not looked for."""
    if option.breaks is None:
        return None
    if not option.holds:
        return f"≤ {_load(advice, option.breaks)}"
    return _where(advice, option, option.breaks) if math.isfinite(option.breaks) else "no load looked at"


def _verdict(advice: Advice) -> Iterator[str]:
    goals = "; ".join(goal.said() for goal in advice.goals)
    if advice.verdict is AdviceVerdict.UNSUPPORTED:
        yield f"Nothing is recommended for {goals}: too little was seen."
        return
    if advice.verdict is AdviceVerdict.IMPOSSIBLE:
        yield "No set-up meets this: the requests' own work is beyond it."
        yield from advice.bounds
        return
    assert advice.present is not None and advice.recommended is not None
    if advice.verdict is AdviceVerdict.NOTHING:
        nothing, held = "Change nothing", "as it is served now"
        if advice.what_if:
            nothing, held = "Change nothing more", _now(advice)
        yield f"{nothing}: {goals} is met {held}{_how_far(advice, advice.present)}."
        yield _why_nothing(advice, advice.present)
    elif advice.verdict is AdviceVerdict.OUT_OF_REACH:
        yield f"Nothing that was tried meets {goals}. The nearest: {way_said(advice, advice.recommended)}."
    elif advice.present.at.reached and advice.recommended.cost < advice.present.cost:
        said = way_said(advice, advice.recommended)
        yield f"Serve it with {said}: {goals} is met {_now(advice)} too, but this takes less."
    else:
        yield f"Serve it with {way_said(advice, advice.recommended)}."
    yield from _predictions(advice)
    yield from _cliff(advice)
    yield from _wrong(advice)
    yield from _beside(advice)


def _now(advice: Advice) -> str:
    """What the present option is: a what-if's is served by nobody."""
    return "with the what-if alone" if advice.what_if else "now"


def _load(advice: Advice, times: float) -> str:
    whose = "the planned" if advice.what_if else "today's"
    return f"{times:.2f}× {whose} load"


def _where(advice: Advice, option: Option, times: float) -> str:
    """A load near which the goal breaks, and whether that is known by short runs alone."""
    return f"{'' if option.sure else 'about '}{_load(advice, times)}"


def _cost(advice: Advice, option: Option) -> str:
    one, several = _UNITS[advice.cost]
    return f"{amount(option.cost)} {one if option.cost == 1 else several}"


def _how_far(advice: Advice, option: Option) -> str:
    """Up to which load what is met stays so."""
    if option.holds is None or option.breaks is None:
        return ""
    if not option.holds:
        return f", but not at {_load(advice, option.breaks)}, the lowest that was looked at"
    if not math.isfinite(option.breaks):
        return ", at every load that was looked at"
    return f", up to {_where(advice, option, option.holds)}"


def _why_nothing(advice: Advice, now: Option) -> str:
    busy = now.at.run.cpu_frac
    waits = _waits(now.at)
    if not waits:
        return (
            f"Its processes compute {per_cent(busy)} of the time and requests hardly wait: no order, limit or lane can "
            "win back what nobody waits for."
        )
    return f"Its processes compute {per_cent(busy)} of the time; {waits}. That is within the goal."


def _predictions(advice: Advice) -> Iterator[str]:
    assert advice.present is not None and advice.recommended is not None
    same = advice.recommended is advice.present or advice.recommended.candidate == advice.present.candidate
    for judged in advice.recommended.at.goals:
        line = f"{judged.goal.route}: {_predicted(advice, judged)}"
        if not same:
            before = next(each for each in advice.present.at.goals if each.goal == judged.goal)
            latency = "never settles" if not advice.present.at.settled else _latency(before)
            line += f"; {_now(advice)}: {latency}, {per_cent(before.within.at)} in time"
        yield f"{line}."
    if not same:
        yield from _price(advice)


def _predicted(advice: Advice, judged: Judged) -> str:
    low, high = max(0.0, judged.within.low), min(1.0, judged.within.high)
    text = f"{_latency(judged)}, {per_cent(judged.within.at)} within {milliseconds(judged.goal.limit_ms)}"
    if low < high:
        text += f" (95 %: {per_cent(low)} to {per_cent(high)})"
    return text


def _latency(judged: Judged) -> str:
    if not math.isfinite(judged.latency_ms):
        return f"{level_said(judged.goal.share)} without end"
    return f"{level_said(judged.goal.share)} {milliseconds(judged.latency_ms)}"


def _price(advice: Advice) -> Iterator[str]:
    """What others pay."""
    assert advice.present is not None and advice.recommended is not None
    wanted = {goal.route for goal in advice.goals}
    worse = []
    for route in advice.recommended.at.run.routes:
        before = advice.present.at.run.route(route.route)
        if route.route in wanted or not route.done or not before.done:
            continue
        after_ms, before_ms = route.percentile_ms(0.99), before.percentile_ms(0.99)
        if advice.present.at.settled and after_ms > 1.1 * before_ms:
            worse.append(f"{route.route} p99 {milliseconds(before_ms)} to {milliseconds(after_ms)}")
    if worse:
        pay = "Against the what-if alone the others pay" if advice.what_if else "The others pay"
        yield f"{pay}: {'; '.join(worse[:5])}."
    refused = sum(route.refused for route in advice.recommended.at.run.routes)
    if refused:
        ended = sum(route.ended for route in advice.recommended.at.run.routes)
        share = per_cent(refused / ended) if refused / ended >= _SHOWN_FRAC else "Fewer than 0.1 %"
        yield f"{share} of the requests are refused at once, since they would have come too late."


def _cliff(advice: Advice) -> Iterator[str]:
    """On-call question 16."""
    nearest = advice.verdict is AdviceVerdict.OUT_OF_REACH
    shown = [("the nearest" if nearest else "recommended", advice.recommended)]
    if advice.present is not advice.recommended:
        shown.append((_now(advice), advice.present))
    parts = [
        f"{word}, {_breaks_at(advice, option)}"
        for word, option in shown
        if option is not None and option.breaks is not None
    ]
    if parts:
        first = "The goal breaks" if len(advice.goals) == 1 else "The first of the goals breaks"
        yield f"{first}: {'. And '.join(parts)}."


def _breaks_at(advice: Advice, option: Option) -> str:
    breaks = option.breaks or 0.0
    if not option.holds:
        return f"at {_load(advice, breaks)} already, the lowest that was looked at"
    if not math.isfinite(breaks):
        return "at no load that was looked at"
    rate = amount(breaks * advice.profile.arrivals.rate_per_s)
    where = f"at {_where(advice, option, breaks)} ({rate} requests a second)"
    full = full_load(advice.profile, option.set_up)
    whose = "the first of its processes is" if option.set_up.hard else _whose(option)
    return f"{where}; {whose} full at {full:.2f}×" if math.isfinite(full) else where


def _whose(option: Option) -> str:
    return "its process is" if option.set_up.processes == 1 else "its processes are"


def _wrong(advice: Advice) -> Iterator[str]:
    chosen = advice.recommended
    if chosen is None or not advice.wrong:
        return
    name = chosen.candidate.name
    broken: list[str] = []
    holds: list[str] = []
    for wrong in advice.wrong:
        text = f"{wrong.said}: {_came(wrong, name)}"
        (holds if wrong.reached(name) else broken).append(text)
    if holds:
        yield f"It still holds if {'; if '.join(holds)}."
    if broken:
        yield f"It breaks if {'; if '.join(broken)}."


def _came(wrong: Wrong, option: str) -> str:
    run = wrong.options[option]
    if wrong.name == HANG:
        return f"the others' orders {'go on' if wrong.reached(option) else 'wait too'}, {_short(run.worst)}"
    return _short(run.worst) if run.settled else "never settles"


def _beside(advice: Advice) -> Iterator[str]:
    follows, chosen = advice.runner_up, advice.recommended
    if follows is not None and chosen is not None:
        far = "" if follows.breaks is None else f", breaks at {breaks_said(advice, follows)}"
        instead = " too" if follows.cost == chosen.cost else f" instead of {amount(chosen.cost)}"
        yield (
            f"Runner-up: {way_said(advice, follows)} "
            f"({_STANDING[follows.at.standing]}: {_short(follows.at.worst)}{far}; "
            f"{_cost(advice, follows)}{instead}).{_why_not(advice, follows, chosen)}"
        )
    stock = advice.stock
    if stock is not None and chosen is not None and stock.candidate.name != chosen.candidate.name:
        stands = f"{_STANDING[stock.at.standing]}: {_short(stock.at.worst)}"
        yield f"If it is to stay on stock servers: {stock.candidate.said} ({stands})."


def _why_not(advice: Advice, follows: Option, chosen: Option) -> str:
    """Why what costs less is not recommended."""
    if not follows.at.reached or follows.cost >= chosen.cost:
        return ""
    met = "the goal" if len(advice.goals) == 1 else "the goals"
    name, best = follows.candidate.name, chosen.candidate.name
    for wrong in advice.wrong:
        both = wrong.name == HANG and {name, best} <= set(wrong.options)
        if both and wrong.reached(best) and not wrong.reached(name):
            return f" It takes less and meets {met}, but if {wrong.said}, the others' orders wait too."
    if (follows.holds or 0.0) >= EDGE_TIMES or (chosen.holds or 0.0) < EDGE_TIMES:
        return ""
    must = f"what is recommended must hold at {_load(advice, EDGE_TIMES)} too"
    return f" It takes less and meets {met}, but is at the edge: {must}."


def _waits(run: Predicted) -> str:
    """What requests wait for, mean, what is most first; "" = hardly anything."""
    waits: dict[str, float] = {}
    total = jobs = 0.0
    for route in run.run.routes:
        jobs += route.ended
        total += route.mean_ms * route.done
        for cause, ms in route.waits_ms.items():
            waits[cause] = waits.get(cause, 0.0) + ms * route.ended
    worth = [(cause, ms) for cause, ms in sorted(waits.items(), key=lambda each: -each[1]) if ms > _WORTH_FRAC * total]
    if not worth or not jobs:
        return ""
    return "a request waits " + ", ".join(f"{milliseconds(ms / jobs)} {_CAUSES[cause]}" for cause, ms in worth)


def _short(judged: Judged) -> str:
    return f"{judged.goal.route} {_latency(judged)}"


def _mark(advice: Advice, option: Option) -> str:
    names = {
        "recommended": advice.recommended, "runner-up": advice.runner_up, "now": advice.present,
    }  # fmt: skip
    marks = [word for word, each in names.items() if each is not None and each.candidate.name == option.candidate.name]
    marks = [word for word in marks if not (word == "now" and option.candidate.name == "present")]
    return f" ({', '.join(marks)})" if marks else ""


def _option_rows(advice: Advice, option: Option) -> Iterator[Row]:
    for judged in option.at.goals:
        yield {
            "view": "option",
            "contender": option.candidate.name,
            "said": way_said(advice, option),
            "stock": option.candidate.stock,
            "cost": option.cost,
            "endpoint": judged.goal.route,
            "goal": judged.goal.said(),
            "standing": judged.standing.value if option.at.settled else GoalStanding.MISSED.value,
            "latency_ms": _finite(judged.latency_ms),
            "within_deadline_frac": _finite(judged.within.at),
            "within_deadline_low_frac": _finite(judged.within.low),
            "within_deadline_high_frac": _finite(judged.within.high),
            "holds_at_load": _finite(option.holds),
            "breaks_at_load": _finite(option.breaks),
            "breaks_at_length": option.sure,
            "cpu_frac": option.at.run.cpu_frac,
            "settled": option.at.settled,
        }


def _route_rows(option: Option) -> Iterator[Row]:
    for route in option.at.run.routes:
        found: Row = {
            "view": "route",
            "contender": option.candidate.name,
            "endpoint": route.route,
            "samples": route.done,
            "refused": route.refused,
            "mean_ms": _finite(route.mean_ms),
            "waits_ms": dict(route.waits_ms),
        }
        for name, share in LEVELS.items():
            if carried(share, route.done):
                estimate = route.percentile(share)
                found[name] = _finite(estimate.at)
                found[name.replace("_ms", "_low_ms")], found[name.replace("_ms", "_high_ms")] = _interval(estimate)
        yield found


def _curve_rows(option: Option) -> Iterator[Row]:
    for run in option.curve:
        yield {
            "view": "curve",
            "contender": option.candidate.name,
            "load": run.load,
            "endpoint": run.worst.goal.route,
            "latency_ms": _finite(run.worst.latency_ms),
            "within_deadline_frac": _finite(run.worst.within.at),
            "settled": run.settled,
        }


def _interval(estimate: Estimate) -> tuple[float | None, float | None]:
    return _finite(estimate.low), _finite(estimate.high)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
