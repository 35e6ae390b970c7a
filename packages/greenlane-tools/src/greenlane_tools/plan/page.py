"""The plan as one HTML file: latency against load with the cliff, cost against goal, and predictions by route.

No network, no script but the pages' own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LogAxis
from greenlane_tools.page.blocks import Card, cards, figure, note, paragraph, section
from greenlane_tools.page.charts.curves import Curve, Mark, Point, Scale, curves
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.document import document
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import amount, count, milliseconds
from greenlane_tools.plan.advice import Advice, AdviceVerdict
from greenlane_tools.plan.goal import Goal, level_said
from greenlane_tools.plan.measured import LEVELS, carried
from greenlane_tools.plan.options import Option, Predicted
from greenlane_tools.plan.sensitivity import Wrong
from greenlane_tools.plan.settings import Stock
from greenlane_tools.plan.verify.compared import COLUMNS, Compared, table_of
from greenlane_tools.plan.words import answers, breaks_said, per_cent, way_said

__all__ = ["page"]

_TITLE: Final = "greenlane plan"
_ABOUT: Final = (
    "Simulated with the rules that run in production, from the sequences of CPU and I/O that the profile holds. Every "
    "set-up meets the very same requests. Left out: garbage collection, page faults, what else the machine has to do. "
    "Intervals are of the simulation (batch means, 95 %); what the profile does not know is in none of them."
)
_WORDS: Final = {
    AdviceVerdict.CHANGE: "change it",
    AdviceVerdict.NOTHING: "change nothing",
    AdviceVerdict.OUT_OF_REACH: "out of reach",
    AdviceVerdict.IMPOSSIBLE: "no set-up can",
    AdviceVerdict.UNSUPPORTED: "too little was seen",
}
_COST: Final = {"cores": "cores", "memory": "memory, MB", "processes": "processes", "changes": "effort of the change"}


def page(
    advice: Advice,
    environment: Mapping[str, object],
    *,
    settings: str = "",
    stock: Stock | None = None,
    proof: Sequence[Compared] = (),
) -> Html:
    """The whole page.

    Args:
        environment: as in `--json`; printed at the foot.
        settings: the text of greenlane.toml; "" = none.
        stock: for those who stay on stock servers.
        proof: rows of `--verify`.
    """
    first, *others = answers(advice)
    header = [note(_TITLE), element("h1", advice.profile.name or "The plan"), paragraph(first, "lead"), _cards(advice)]
    parts = [
        section("Why, and how sure", *(paragraph(text) for text in others)) if others else "",
        *(_against_load(advice, goal) for goal in advice.goals),
        _against_cost(advice),
        _routes(advice),
        _wrong(advice),
        _settings(settings, stock),
        _proof(proof),
        section("How this was made", paragraph(_ABOUT), _made(advice, environment)),
    ]
    return document(_TITLE, header, parts)


def _cards(advice: Advice) -> Html:
    found = [Card("verdict", _WORDS[advice.verdict], mood="good" if advice.verdict is AdviceVerdict.NOTHING else "")]
    named = {_now(advice): advice.present, "recommended": advice.recommended}
    for name, option in named.items():
        if option is None or (name == "recommended" and option is advice.present):
            continue
        worst = option.at.worst
        late = not option.at.reached
        value = _ms(worst.latency_ms) if option.at.settled else "never settles"
        aside = f"{worst.goal.route} {level_said(worst.goal.share)}, wanted {milliseconds(worst.goal.limit_ms)}"
        found.append(Card(name, value, aside, "bad" if late else "good"))
        if option.breaks is not None and (far := breaks_said(advice, option)):
            found.append(
                Card(f"{name}: the goal breaks at", far, _rate(advice, option.breaks if option.holds else 0.0))
            )
    return cards(found)


def _rate(advice: Advice, load: float) -> str:
    if not load or not math.isfinite(load):
        return ""
    return f"{amount(load * advice.profile.arrivals.rate_per_s)} requests a second"


def _against_load(advice: Advice, goal: Goal) -> Html:
    """One goal: its percentile by load, of the options that were looked at closely."""
    shown = [option for option in advice.options if len(option.curve) > 1]
    order = _named_first(advice, shown)
    series = [curve for option in order if (curve := _curve(advice, option, goal)) is not None]
    if not series:
        return Html("")
    level = level_said(goal.share)
    name, here = ("load, times the planned", "planned") if advice.what_if else ("load, times today's", "today")
    x = Scale(name, lambda value: f"{value:.2f}×", low=0.0)
    y = Scale(f"{goal.route} {level}", milliseconds, log=True)
    marks = [Mark(1.0, here)]
    marks += [
        Mark(option.breaks, f"{_name(advice, option)} breaks", late=True)
        for option in order[:2]
        if option.holds and option.breaks is not None and math.isfinite(option.breaks)
    ]
    drawing = curves(
        series, f"{goal.route} {level} against load", x, y, upright=marks,
        level=[Mark(goal.limit_ms, f"goal {milliseconds(goal.limit_ms)}", late=True)],
    )  # fmt: skip
    return section(
        f"{goal.route}: how far the cliff is",
        blocks.wide(figure(f"{level} of {goal.route} by load", drawing)),
        about="Each line ends where its processes are full: beyond, requests wait longer the longer it lasts.",
    )


def _curve(advice: Advice, option: Option, goal: Goal) -> Curve | None:
    points = [_point(run, goal) for run in option.curve if run.settled]
    found = [point for point in points if point is not None]
    if not found:
        return None
    strong = advice.recommended is not None and option.candidate.name == advice.recommended.candidate.name
    return Curve(_name(advice, option), found, strong=strong)


def _point(run: Predicted, goal: Goal) -> Point | None:
    judged = next((each for each in run.goals if each.goal == goal), None)
    if judged is None or not math.isfinite(judged.latency_ms):
        return None
    return Point(run.load, judged.latency_ms)


def _against_cost(advice: Advice) -> Html:
    """Every option: what it takes, and how far it is from the goal."""
    if len(advice.options) < 2:
        return Html("")
    lines = [
        blocks.Row(
            (
                _name(advice, option), way_said(advice, option), amount(option.cost), option.at.worst.goal.route,
                _ms(option.at.worst.latency_ms) if option.at.settled else "never settles",
                per_cent(option.at.worst.within.at), breaks_said(advice, option) or "-",
            ),
            _style(advice, option),
        )
        for option in advice.options
    ]  # fmt: skip
    heads = ("way", "what it is", _COST[advice.cost], "worst goal", "latency", "in time", "goal breaks at")
    return section(
        "What it costs, and what for",
        _cost_chart(advice),
        blocks.table(heads, lines, "all ways that were tried", names=2),
        about="The latency of the goal that is missed most, or met by least, by its limit: left of the line the goals "
        "are met. Groups are what it takes.",
    )


def _cost_chart(advice: Advice) -> Html:
    settled = [option for option in advice.options if option.at.settled and math.isfinite(option.at.tail)]
    if not settled:
        return Html("")
    groups: dict[str, list[Whisker]] = {}
    for option in settled:
        row = Whisker(
            _name(advice, option), option.at.tail, option.at.tail, option.at.tail, _ms(option.at.worst.latency_ms),
            strong=_is(option, advice.recommended), late=not option.at.reached,
        )  # fmt: skip
        groups.setdefault(f"{amount(option.cost)} {_COST[advice.cost]}", []).append(row)
    tails = [option.at.tail for option in settled]
    axis = LogAxis(min(0.1, *tails), max(2.0, *tails), LEFT, RIGHT)
    drawing = whiskers(groups, axis, "cost against goal", lambda value: f"{amount(value)}×", mark=1.0)
    return blocks.wide(figure("Latency by its limit, by what it costs", drawing))


def _routes(advice: Advice) -> Html:
    """Every route, now and then."""
    named = [option for option in (advice.present, advice.recommended, advice.runner_up) if option is not None]
    unique = list({option.candidate.name: option for option in named}.values())
    if not unique:
        return Html("")
    heads = ("route", "set-up", *(name.removesuffix("_ms") for name in LEVELS), "95 % of p99", "waits", "refused")
    lines = []
    for route in unique[0].at.run.routes:
        for number, option in enumerate(unique):
            cells = _route_cells(option, route.route)
            style = "first" if number == 0 else ""
            lines.append(
                blocks.Row((route.route, _name(advice, option), *cells), f"{style} {_style(advice, option)}".strip())
            )
    return section("Each route", blocks.table(heads, lines, "predictions by route", names=2))


def _route_cells(option: Option, name: str) -> tuple[str, ...]:
    route = option.at.run.route(name)
    levels = [_ms(route.percentile_ms(share)) if carried(share, route.done) else "-" for share in LEVELS.values()]
    estimate = route.percentile(0.99)
    around = f"{_ms(max(0.0, estimate.low))} to {_ms(estimate.high)}" if math.isfinite(estimate.high) else "-"
    waits = [f"{cause} {milliseconds(ms)}" for cause, ms in route.waits_ms.items() if ms > 0.05]
    return (*levels, around, ", ".join(waits) or "-", count(route.refused))


def _wrong(advice: Advice) -> Html:
    if not advice.wrong:
        return Html("")
    names = list(advice.wrong[0].options)
    by_name = {option.candidate.name: option for option in advice.options}
    lines = []
    for wrong in advice.wrong:
        cells = [_wrong_cell(wrong, name) for name in names]
        lines.append(blocks.Row((f"if {wrong.said}", *cells)))
    heads = ("", *(_name(advice, by_name[name]) for name in names))
    return section("The price of being wrong", blocks.table(heads, lines, "what comes of it where the profile errs"))


def _wrong_cell(wrong: Wrong, name: str) -> str:
    if not wrong.settles(name):
        return "never settles"
    worst = wrong.options[name].worst
    met = "met" if wrong.reached(name) else "missed"
    return f"{met}: {worst.goal.route} {level_said(worst.goal.share)} {_ms(worst.latency_ms)}"


def _settings(settings: str, stock: Stock | None) -> Html:
    parts: list[str] = []
    if settings:
        parts += [element("h3", "greenlane.toml"), element("pre", settings)]
    if stock is not None:
        parts += [
            element("h3", "Staying on stock servers"),
            paragraph(f"The best of them: {stock.option.candidate.said}."),
        ]
        parts += [element("pre", "\n".join(stock.commands))]
        parts += [paragraph(text) for text in stock.warnings]
    return section("Settings", *parts) if parts else Html("")


def _proof(proof: Sequence[Compared]) -> Html:
    if not proof:
        return Html("")
    lines = [
        blocks.Row(
            tuple("-" if row[name] is None else str(row[name]) for name in COLUMNS), "late" if one.misses else ""
        )
        for one, row in zip(proof, table_of(proof), strict=True)
    ]
    return section(
        "Predicted and measured",
        blocks.table(COLUMNS, lines, "predictions beside measurements", names=2),
        about="The lab served both under the same load, open loop, timed from the scheduled send.",
    )


def _made(advice: Advice, environment: Mapping[str, object]) -> Html:
    facts = {
        "requests of a set-up that is named": count(advice.jobs), "seed": str(advice.seed),
        "profile": advice.profile.source, "requests seen": count(advice.profile.requests),
        **{name: str(value) for name, value in environment.items()},
    }  # fmt: skip
    return blocks.table(("what", "value"), [blocks.Row(each) for each in facts.items()], "made on", names=2)


def _named_first(advice: Advice, options: Sequence[Option]) -> list[Option]:
    order = [advice.recommended, advice.present, advice.runner_up]
    names = [option.candidate.name for option in order if option is not None]
    return sorted(
        options, key=lambda each: names.index(each.candidate.name) if each.candidate.name in names else len(names)
    )


def _name(advice: Advice, option: Option) -> str:
    if _is(option, advice.present):
        return _now(advice)
    return f"{option.candidate.name} (recommended)" if _is(option, advice.recommended) else option.candidate.name


def _now(advice: Advice) -> str:
    """What the present option is: a what-if's is served by nobody."""
    return "what-if alone" if advice.what_if else "now"


def _style(advice: Advice, option: Option) -> str:
    styles = ["ours"] if _is(option, advice.recommended) else []
    return " ".join(styles if option.at.reached else [*styles, "late"])


def _is(option: Option, other: Option | None) -> bool:
    return other is not None and option.candidate.name == other.candidate.name


def _ms(ms: float) -> str:
    return milliseconds(ms) if math.isfinite(ms) else "without end"
