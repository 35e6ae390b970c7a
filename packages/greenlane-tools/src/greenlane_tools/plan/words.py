"""The advice in words: the verdict, what was recorded, what is predicted with its band, how far the cliff is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from greenlane_tools.page.quantities import amount, milliseconds
from greenlane_tools.plan.advice import Advice, AdviceVerdict
from greenlane_tools.plan.band import Band, full_load
from greenlane_tools.plan.goal import Goal, level_said, per_cent
from greenlane_tools.plan.options import Judged, Option
from greenlane_tools.plan.profile import LEVELS, carried
from greenlane_tools.report.verdict import Verdict

Row = dict[str, object]

#: Of the table for people.
COLUMNS: Final = ("way", "cores", "goals", "worst", "breaks at", "what it is")
#: Rows of it, and goals with a sentence of their own, unless all are wanted.
_SHOWN: Final = 5
_CAUSES: Final = {
    "queue": "for a process", "cpu": "for the CPU (GIL, loop)", "permit": "for a permit",
    "upstream": "for a busy upstream", "placed": "for where its work is placed",
}  # fmt: skip
#: Of the time of requests; less is not worth naming.
_WORTH_FRAC: Final = 0.02
#: Of what is shown beside the present set-up; else it is recommended.
_MARKS: Final = {AdviceVerdict.OUT_OF_REACH: "nearest", AdviceVerdict.UNSURE: "perhaps"}
#: A share that reads as 0.1 %; what is less would read as none.
_SHOWN_FRAC: Final = 0.0005
#: What a recording's verdict may be about and the simulation has, too.
_MODELLED: Final = ("gil", "loop", "executor", "upstream", "none")


def answers(advice: Advice) -> list[str]:
    """The sentences. What was recorded comes before the verdict where it is the whole answer, or contradicts it."""
    found = [] if advice.recorded is None else _verdict_lines(advice, advice.recorded)
    return [*found, *_answers(advice)]


def _verdict_lines(advice: Advice, verdict: Verdict) -> list[str]:
    """What the recording found, and how the plan stands to it: neither is told without the other's reason."""
    said = [f"Recorded: {verdict.sentence}"]
    if not verdict.cost_ns and verdict.kind != "errors":
        return said
    way = f"The report's remedy: {verdict.remedy.text}."
    if verdict.kind not in _MODELLED:
        return [*said, f"{way} The simulation knows nothing of that: what follows is for what is left when it is done."]
    changes = advice.verdict in (AdviceVerdict.CHANGE, AdviceVerdict.UNSURE, AdviceVerdict.OUT_OF_REACH)
    beside = "changes how it is served, and not that code" if changes else "finds no way to serve it that is better"
    return [*said, f"{way} The plan {beside}:"]


def _answers(advice: Advice) -> list[str]:
    verdict, *others = _verdict(advice)
    recorded = [] if advice.what_if else [each.said() for each in advice.seen]
    if len(recorded) > _SHOWN:
        recorded = [*recorded[:_SHOWN], f"... and {len(recorded) - _SHOWN} goals more (--json has all)."]
    first = advice.verdict in (AdviceVerdict.TOO_FEW, AdviceVerdict.UNEXPLAINED)
    if first or any(each.missed and each.goal not in advice.judged for each in advice.seen):
        return [*recorded, verdict, *others, *advice.notes]
    return [verdict, *recorded, *advice.doubts, *others, *advice.notes]


def table_of(advice: Advice, *, everything: bool = False) -> list[Row]:
    """A row an option, for people: present, recommended and the best of the others."""
    return [
        {
            "way": option.candidate.name + _mark(advice, option),
            "cores": option.cost,
            "goals": "met" if option.at.reached else "missed",
            "worst": _short(option.at.worst) if option.at.settled else "never settles",
            "breaks at": breaks_said(advice, option),
            "what it is": way_said(advice, option),
        }
        for option in (advice.options if everything else _best(advice))
    ]


def rows_of(advice: Advice) -> list[Row]:
    """For programs: the whole, what was recorded, each option with its goals, each route of the named ones."""
    named = {"present": advice.present, "recommended": advice.recommended}
    whole: Row = {
        "view": "advice",
        "verdict": advice.verdict.value,
        "goals": [goal.said() for goal in advice.goals],
        **{name: option.candidate.name if option else None for name, option in named.items()},
        "jobs": advice.jobs,
        "seed": advice.seed,
        "said": answers(advice),
        "bounds": list(advice.bounds),
        "set_up": advice.recommended.set_up.to_json() if advice.recommended else None,
    }
    recorded: list[Row] = [
        {
            "view": "recorded", "endpoint": each.goal.route, "goal": each.goal.said(), "samples": each.samples,
            "missed": each.missed, "latency_ms": each.latency_ms, "latency_low_ms": each.low_ms,
            "latency_high_ms": each.high_ms, "within_deadline_frac": each.within.at,
            "within_deadline_low_frac": each.within.low, "within_deadline_high_frac": each.within.high,
            "enough": each.goal in advice.judged,
        }
        for each in advice.seen
    ]  # fmt: skip
    shown = {option.candidate.name: option for option in named.values() if option}
    return [
        whole,
        *recorded,
        *(row for option in advice.options for row in _option_rows(advice, option)),
        *(row for option in shown.values() for row in _route_rows(option)),
    ]


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
    return _load(advice, option.breaks) if math.isfinite(option.breaks) else "no load looked at"


def _best(advice: Advice) -> Sequence[Option]:
    """Of the ways that reach the goals those of the least cost; if there are none, the nearest."""
    kept = {option.candidate.name for option in (advice.present, advice.recommended) if option is not None}
    others = [option for option in advice.options if option.candidate.name not in kept]
    others.sort(key=lambda each: (not each.at.reached, each.cost if each.at.reached else 0, each.at.tail))
    kept |= {option.candidate.name for option in others[: _SHOWN - len(kept)]}
    return [option for option in advice.options if option.candidate.name in kept]


def _verdict(advice: Advice) -> Iterator[str]:
    goals = _goals_said(advice.judged or advice.goals)
    now, best = advice.present, advice.recommended
    if advice.verdict is AdviceVerdict.TOO_FEW:
        yield f"Nothing is recommended for {goals}."
        return
    if advice.verdict is AdviceVerdict.IMPOSSIBLE:
        yield "No set-up meets this: the requests' own work is beyond it."
        yield from advice.bounds
        return
    assert now is not None and best is not None
    held = "with the what-if alone" if advice.what_if else "as it is served now"
    if advice.verdict is AdviceVerdict.UNEXPLAINED:
        if now.at.reached:
            yield (
                f"Nothing is recommended: the simulation of the same set-up meets {goals}, so what made the recorded "
                "requests slow is not in the model (locks, pools, a neighbour on the machine: see `greenlane report`)."
            )
        else:
            yield (
                "Nothing is recommended: as recorded the goal is met, the simulation of the same set-up misses it, so "
                "its predictions are not to be trusted here."
            )
    elif advice.verdict is AdviceVerdict.NOTHING:
        more = " more" if advice.what_if else ""
        yield f"Change nothing{more}: {goals} is met {held}{_how_far(advice, now)}."
        yield _why_nothing(now)
    elif advice.verdict is AdviceVerdict.UNSURE:
        came = "met" if now.at.reached else "missed"
        yield (
            f"Not sure: {goals} is {came} {held}, and the best that was found may be no better: "
            f"{way_said(advice, best)}. Leave it, or measure both with --verify."
        )
    elif advice.verdict is AdviceVerdict.OUT_OF_REACH and best.candidate == now.candidate:
        yield f"Nothing that was tried meets {goals}, and nothing is surely better than what it has."
    elif advice.verdict is AdviceVerdict.OUT_OF_REACH:
        yield f"Nothing that was tried meets {goals}. The nearest: {way_said(advice, best)}."
    elif now.at.reached and best.cost < now.cost:
        yield f"Serve it with {way_said(advice, best)}: {goals} is met {held} too, but this takes less."
    else:
        yield f"Serve it with {way_said(advice, best)}."
    yield from _predictions(advice, now, best)
    yield from _cliff(advice, now, best)


def _goals_said(goals: Sequence[Goal]) -> str:
    said = "; ".join(goal.said() for goal in goals[:_SHOWN])
    return said if len(goals) <= _SHOWN else f"{said} and {len(goals) - _SHOWN} more"


def _load(advice: Advice, times: float) -> str:
    whose = "the planned" if advice.what_if else "today's"
    return f"{times:.2f}× {whose} load"


def _how_far(advice: Advice, option: Option) -> str:
    """Up to which load what is met stays so."""
    if option.holds is None or option.breaks is None:
        return ""
    if not option.holds:
        return f", but not at {_load(advice, option.breaks)}, the lowest that was looked at"
    if not math.isfinite(option.breaks):
        return ", at every load that was looked at"
    return f", up to {_load(advice, option.holds)}"


def _why_nothing(now: Option) -> str:
    busy = f"Its processes compute {per_cent(now.at.run.cpu_frac)} of the time"
    waits = _waits(now)
    if not waits:
        return f"{busy} and requests hardly wait: no order, limit or lane can gain anything."
    return f"{busy}; {waits}. That is within the goal."


def _predictions(advice: Advice, now: Option, best: Option) -> Iterator[str]:
    held = "with the what-if alone" if advice.what_if else "now"
    same = best.candidate == now.candidate
    for number, judged in enumerate(best.at.goals):
        if number == _SHOWN:
            yield f"... and {len(best.at.goals) - _SHOWN} goals more (--json has all)."
            break
        line = f"{judged.goal.route}: {_predicted(advice, best, judged)}"
        if not same:
            before = next(each for each in now.at.goals if each.goal == judged.goal)
            line += f"; {held}: {_predicted(advice, now, before)}"
        yield f"{line}."
    if not same:
        yield from _price(advice, now, best)


def _predicted(advice: Advice, option: Option, judged: Judged) -> str:
    """As a band of what a measurement of five minutes will be, nine times of ten."""
    if not option.at.settled:
        return "never settles"
    band = advice.band(option, judged.goal)
    limit, level = milliseconds(judged.goal.limit_ms), level_said(judged.goal.share)
    if band is None:
        return f"{_latency(judged)}, {per_cent(judged.within)} within {limit}"
    return f"{level} {_from_to(band)}, {_share(band)} within {limit}"


def _from_to(band: Band) -> str:
    if not math.isfinite(band.high_ms):
        return f"from {milliseconds(band.low_ms)} on" if math.isfinite(band.low_ms) else "without end"
    return f"{milliseconds(band.low_ms)} to {milliseconds(band.high_ms)}"


def _share(band: Band) -> str:
    low, high = per_cent(band.low_within), per_cent(band.high_within)
    return low if low == high else f"{low} to {high}"


def _latency(judged: Judged) -> str:
    level = level_said(judged.goal.share)
    return f"{level} {milliseconds(judged.latency_ms)}" if math.isfinite(judged.latency_ms) else f"{level} without end"


def _price(advice: Advice, now: Option, best: Option) -> Iterator[str]:
    """What others pay."""
    wanted = {goal.route for goal in advice.goals}
    worse = []
    for route in best.at.run.routes:
        before = now.at.run.route(route.route)
        if route.route in wanted or not route.done or not before.done or not now.at.settled:
            continue
        after_ms, before_ms = route.percentile_ms(0.99), before.percentile_ms(0.99)
        if after_ms > 1.1 * before_ms:
            worse.append(f"{route.route} p99 {milliseconds(before_ms)} to {milliseconds(after_ms)}")
    if worse:
        pay = "Against the what-if alone the others pay" if advice.what_if else "The others pay"
        yield f"{pay}: {'; '.join(worse[:_SHOWN])}."
    refused = sum(route.refused for route in best.at.run.routes)
    share = refused / max(1, sum(route.ended for route in best.at.run.routes))
    if share >= _SHOWN_FRAC:
        yield f"{per_cent(share)} of the requests are refused immediately, because they would be late."


def _cliff(advice: Advice, now: Option, best: Option) -> Iterator[str]:
    """On-call question 16."""
    shown = [(_MARKS.get(advice.verdict, "recommended"), best)]
    if now.candidate != best.candidate:
        shown.append(("with the what-if alone" if advice.what_if else "now", now))
    parts = [f"{word}, {_breaks_at(advice, option)}" for word, option in shown if option.breaks is not None]
    if parts:
        first = "The goal breaks" if len(advice.judged) == 1 else "The first of the goals breaks"
        yield f"{first}: {'. And '.join(parts)}."


def _breaks_at(advice: Advice, option: Option) -> str:
    breaks = option.breaks or 0.0
    if not option.holds:
        return f"at {_load(advice, breaks)} already, the lowest that was looked at"
    if not math.isfinite(breaks):
        return "at no load that was looked at"
    rate = amount(breaks * advice.profile.arrivals.rate_per_s)
    where = f"at {_load(advice, breaks)} ({rate} requests a second)"
    full = full_load(advice.profile, option.set_up)
    one = option.set_up.processes == 1
    whose = "the first of its processes is" if option.set_up.hard else f"its process{' is' if one else 'es are'}"
    return f"{where}; {whose} full at {full:.2f}×" if math.isfinite(full) else where


def _waits(option: Option) -> str:
    """What requests wait for, mean, what is most first; "" = hardly anything."""
    waits: dict[str, float] = {}
    total = jobs = 0.0
    for route in option.at.run.routes:
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
    best = advice.recommended
    if best is None or best.candidate.name != option.candidate.name or advice.verdict is AdviceVerdict.UNEXPLAINED:
        return ""
    return f" ({_MARKS.get(advice.verdict, 'recommended')})"


def _option_rows(advice: Advice, option: Option) -> Iterator[Row]:
    for judged in option.at.goals:
        band = advice.band(option, judged.goal)
        yield {
            "view": "option",
            "contender": option.candidate.name,
            "said": way_said(advice, option),
            "stock": option.candidate.stock,
            "cores": option.cost,
            "endpoint": judged.goal.route,
            "goal": judged.goal.said(),
            "standing": "met" if judged.met and option.at.settled else "missed",
            "latency_ms": _finite(judged.latency_ms),
            "latency_low_ms": _finite(band.low_ms) if band else None,
            "latency_high_ms": _finite(band.high_ms) if band else None,
            "within_deadline_frac": _finite(judged.within),
            "within_deadline_low_frac": band.low_within if band else None,
            "within_deadline_high_frac": band.high_within if band else None,
            "holds_at_load": _finite(option.holds),
            "breaks_at_load": _finite(option.breaks),
            "cpu_frac": option.at.run.cpu_frac,
            "settled": option.at.settled,
        }


def _route_rows(option: Option) -> Iterator[Row]:
    for route in option.at.run.routes:
        percentiles = {name: share for name, share in LEVELS.items() if carried(share, route.done)}
        yield {
            "view": "route",
            "contender": option.candidate.name,
            "endpoint": route.route,
            "samples": route.done,
            "refused": route.refused,
            "mean_ms": _finite(route.mean_ms),
            "waits_ms": dict(route.waits_ms),
            **{name: _finite(route.percentile_ms(share)) for name, share in percentiles.items()},
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
