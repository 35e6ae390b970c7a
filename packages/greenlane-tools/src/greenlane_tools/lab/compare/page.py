"""The comparison as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from greenlane_tools.lab.compare.sources import said
from greenlane_tools.lab.compare.study import Comparison, Study
from greenlane_tools.lab.compare.verdicts import SMALLEST_SHARE, Place, Quantity, Word
from greenlane_tools.lab.differences import Scale
from greenlane_tools.lab.statistics import Interval
from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LogAxis
from greenlane_tools.page.blocks import Card, Row, note, paragraph, section
from greenlane_tools.page.charts.histogram import histogram
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.document import document
from greenlane_tools.page.frame import Mark
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import amount, milliseconds

# --- A row a comparison, for `--json` and tables.


def rows_of(study: Study) -> list[dict[str, object]]:
    """Rows of `--json`: by endpoint, then quantity. Units are in `quantity`: `p99_ms`, `within_deadline_frac`."""
    return [_row(each, study) for each in study.comparisons]


def _row(each: Comparison, study: Study) -> dict[str, object]:
    sides = each.place.sides[each.a], each.place.sides[each.b]
    return {
        "a": each.a,
        "b": each.b,
        **dict(each.place.cell),
        "cell": said(each.place.cell),
        "endpoint": each.place.endpoint,
        "stage": "client",
        "quantity": each.quantity.name,
        **_interval("a_value", each.a_value),
        **_interval("b_value", each.b_value),
        **_interval("difference", each.found.difference),
        **_interval("ratio", each.found.ratio),
        "p_value": each.found.p_value,
        "p_adjusted": each.p_adjusted,
        "comparisons": len(study.comparisons),
        "verdict": each.verdict.word.value,
        "because": each.verdict.because,
        "repetitions_needed": each.verdict.needed or None,
        "smallest_effect_frac": study.smallest_frac,
        "deadline_ms": sides[0].deadline_ms,
        "paired": each.paired,
        "repetitions_a": 1 if sides[0].single else each.repetitions[0],
        "repetitions_b": 1 if sides[1].single else each.repetitions[1],
        "samples_a": sides[0].offered,
        "samples_b": sides[1].offered,
    }


def _interval(name: str, found: Interval | None) -> dict[str, object]:
    if found is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: found.at, f"{name}_low": found.low, f"{name}_high": found.high}


def conclusion(study: Study) -> str:
    """One sentence a pair of sides."""
    first, *others = study.subjects
    told = []
    for other in others:
        found = [each for each in study.comparisons if each.b == other.name]
        if found:
            told.append(f"{other.name} against {first.name}: {counted(found)}.")
    return " ".join(told)


def counted(found: Sequence[Comparison]) -> str:
    """How many got which verdict: "4 better, 1 worse, 7 the same (5 of them cannot be told)"."""
    words = [each.verdict.word.value for each in found]
    unknown = sum(each.verdict.open for each in found)
    parts = [f"{words.count(word)} {said}" for word, said in (("better", "better"), ("worse", "worse"))]
    same = f"{words.count('same')} the same"
    if unknown:
        same += " (it cannot be told)" if unknown == words.count("same") else f" ({unknown} of them cannot be told)"
    return ", ".join([*parts, same]) + f", of {len(found)} comparisons"


# --- Values and changes in words: the same in tables and on pages.

#: A ratio.
_HUGE: Final = 100.0


def value(quantity: Quantity, number: float) -> str:
    """A value with its unit."""
    if quantity.name.endswith(("_ms", "_ms_per_job")):
        return milliseconds(number)
    return f"{number * 100:.2f} %" if quantity.name.endswith("_frac") else amount(number)


def change(each: Comparison) -> str:
    """From A to B: "-23 %", "2.4×", "+1.2 points"."""
    return _change(each, _ends(each).at)


def between(each: Comparison) -> str:
    """The interval of `change`."""
    found = _ends(each)
    if each.quantity.scale is Scale.DIFFERENCE:
        return f"{found.low * 100:+.2f} to {found.high * 100:+.2f}"
    return f"{_change(each, found.low)} to {_change(each, found.high)}"


def _ends(each: Comparison) -> Interval:
    ratio = each.found.ratio if each.quantity.scale is Scale.RATIO else None
    return ratio or each.found.difference


def _change(each: Comparison, number: float) -> str:
    if each.quantity.scale is Scale.DIFFERENCE:
        return f"{number * 100:+.2f} points"
    if each.found.ratio is None:
        return f"{'+' if number > 0 else ''}{value(each.quantity, number)}"
    if number >= _HUGE or number <= 1 / _HUGE:  # of wide intervals: no digit of it is known
        return "over 100×" if number > 1 else "-99 %"
    # Adding 0 makes of -0.0 what it is.
    return f"{amount(number)}×" if number >= 2 else f"{round((number - 1) * 100, 1) + 0.0:+.1f} %"


#: A ratio beyond this is drawn at the edge: one wide interval must not flatten all others.
_WIDEST: Final = 20.0
_NARROWEST: Final = 1.25
#: The contender that has our colour.
_OURS: Final = "greenlane"


def page(study: Study, environment: Mapping[str, object]) -> str:
    """The whole page.

    Args:
        environment: of the command that made the page.
    """
    names = [subject.name for subject in study.subjects]
    title = f"greenlane lab compare: {' and '.join(names)}"
    header = [
        note(f"greenlane lab compare {' '.join(names)}"),
        element("h1", conclusion(study), class_="long"),
        *(paragraph(caution, "warning") for caution in study.cautions),
        blocks.cards(_cards(study)),
    ]
    sections = [_glance(study), _distributions(study), _numbers(study), _about(study, environment)]
    links = {"glance": "at a glance", "distributions": "distributions", "numbers": "numbers", "about": "about"}
    return document(title, header, sections, links=links)


def _cards(study: Study) -> list[Card]:
    unknown = sum(each.verdict.open for each in study.comparisons)
    worse = len(study.counted(Word.WORSE))
    return [
        Card("better", str(len(study.counted(Word.BETTER))), mood="good" if study.counted(Word.BETTER) else ""),
        Card("worse", str(worse), mood="bad" if worse else ""),
        Card("the same", str(len(study.counted(Word.SAME)) - unknown), f"within {study.smallest_frac * 100:g} %"),
        Card("cannot tell", str(unknown), "more repetitions would be needed" if unknown else ""),
    ]


def _glance(study: Study) -> Html:
    first, *others = study.subjects
    panels = {}
    for other in others:
        found = [each for each in study.comparisons if each.b == other.name and each.found.ratio is not None]
        drawn = [each for each in found if not each.quantity.name.endswith("_frac")]
        if drawn:
            panels[f"{other.name} against {first.name}"] = blocks.wide(_forest(drawn))
    return section(
        "At a glance",
        blocks.tabs("glance", panels) if panels else "",
        about="Each value as a multiple of the first side's, with its 95 % interval. Left of 1 is less: better for "
        "latencies, worse for done/s. Verdicts are corrected for the number of comparisons, intervals are not.",
        name="glance",
    )


def _forest(found: Sequence[Comparison]) -> Html:
    ratios = [each.found.ratio for each in found if each.found.ratio is not None]
    high = max(_NARROWEST, min(_WIDEST, max(max(ratio.high, 1 / ratio.low) for ratio in ratios)))
    axis = LogAxis(1 / high, high, LEFT, RIGHT)
    groups: dict[str, list[Whisker]] = {}
    for each in found:
        if each.found.ratio is not None:
            low, at, top = each.found.ratio
            row = Whisker(each.quantity.title, low, at, top, _word(each), change(each), *_moods(each))
            groups.setdefault(each.place.name, []).append(row)
    title = f"ratios of {found[0].b} to {found[0].a} with intervals"
    return whiskers(groups, axis, title, lambda value: f"{amount(value)}×", mark=1.0)


def _moods(each: Comparison) -> tuple[bool, bool]:
    """Whether it stands out as better, and as worse."""
    return each.verdict.word is Word.BETTER, each.verdict.word is Word.WORSE


def _word(each: Comparison) -> str:
    return "cannot tell" if each.verdict.open else each.verdict.word.value


def _why(each: Comparison) -> str:
    """The reason, beside a column that says "cannot tell" already."""
    return each.verdict.because.removeprefix("cannot tell: ").removesuffix(" would be needed")


def _distributions(study: Study) -> Html:
    cells: dict[str, list[Html]] = {}
    for place in study.places:
        if not place.mixture and all(len(side.ordered_ms) for side in place.sides.values()):
            cells.setdefault(said(place.cell) or "all", []).append(_place(study, place))
    if not cells:
        return Html("")
    return section(
        "Distributions",
        blocks.tabs("cells", {name: Html("".join(drawn)) for name, drawn in cells.items()}),
        about="Latency from the scheduled send to the end of the answer, and how often each came.",
        name="distributions",
    )


def _place(study: Study, place: Place) -> Html:
    deadline = next((side.deadline_ms for side in place.sides.values()), None)
    marks = [] if deadline is None else [Mark(deadline, f"deadline {milliseconds(deadline)}", late=True)]
    series = {name: side.ordered_ms.tolist() for name, side in place.sides.items()}
    found = [each for each in study.comparisons if each.place is place]
    strong = _OURS if _OURS in series else ""
    counts = ", ".join(f"{len(side.ordered_ms):,} of {name}" for name, side in place.sides.items())
    return Html(
        element("h3", place.endpoint)
        + note(f"Latencies: {counts}.")
        + blocks.wide(histogram(series, f"{place.name}: how often each came", upright=marks, strong=strong, height=220))
        + (_table(found, f"verdicts for {place.name}", with_place=False) if found else note("Too few to compare."))
    )


def _numbers(study: Study) -> Html:
    return section("Numbers", _table(study.comparisons, "all comparisons", with_place=True), name="numbers")


def _table(found: Sequence[Comparison], caption: str, *, with_place: bool) -> Html:
    heads = [*(["where"] if with_place else []), "what", "side", "A", "B", "change", "95 % interval", "verdict", "why"]
    rows, last = [], None
    for each in found:
        first = each.place.name if with_place else each.b
        cells = [
            *([each.place.name] if with_place else []), each.quantity.title, each.b,
            value(each.quantity, each.a_value.at), value(each.quantity, each.b_value.at),
            change(each), between(each), _word(each), _why(each),
        ]  # fmt: skip
        better, worse = _moods(each)
        styles = ["ours"] * better + ["late"] * worse + ["first"] * (last not in (None, first))
        rows.append(Row(cells, " ".join(styles)))
        last = first
    return blocks.table(heads, rows, caption, names=3 if with_place else 2)


def _about(study: Study, environment: Mapping[str, object]) -> Html:
    runs = {
        subject.name: {"origin": subject.origin, "runs": len(subject.runs), "environment": dict(subject.environment)}
        for subject in study.subjects
    }
    paired = sum(each.paired for each in study.comparisons)
    return section(
        "What this is, and what it cannot say",
        note(
            f"{len(study.comparisons)} comparisons, {paired} of them paired by repetition because both sides took "
            "turns in one run. Whole repetitions are drawn 2,000 times with replacement; the spread of the draws, "
            "widened by Student's t for their number, gives the intervals and the probability that chance alone makes "
            "such a difference (Holm's correction for all comparisons, 5 % together)."
        ),
        note(
            f"The same: what differs by less than {study.smallest_frac * 100:g} % (shares: {SMALLEST_SHARE * 100:g} % "
            "of all requests), or cannot be told. Percentiles are of requests answered with 2xx, and of those never "
            "answered at the time they were given up. Repetitions of one run on one machine say nothing of another "
            "machine, another load, or tomorrow."
        ),
        blocks.details("Sides", _json(runs)),
        blocks.details("Made by", _json(environment)),
        name="about",
    )


def _json(found: object) -> Html:
    return element("pre", element("code", json.dumps(found, indent=1, default=str)), class_="wide")
