"""The page of a run: verdicts, latency and heartbeat by function, all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from greenlane_tools.lab.placement.contenders import CONTENDERS, OURS
from greenlane_tools.lab.placement.functions import FUNCTIONS
from greenlane_tools.lab.placement.rows import Row
from greenlane_tools.lab.placement.tables import COLUMNS, place, shown_rows, warnings
from greenlane_tools.lab.placement.verdicts import Choice, Verdict
from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LogAxis
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.document import document
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import amount, milliseconds

__all__ = ["page"]

_TITLE: Final = "Where CPU work beside a loop runs best"
#: Below this a heartbeat's lateness is the timer's own.
_LEAST_MS: Final = 0.01


def page(
    rows: Sequence[Row], choices: Sequence[Choice], verdicts: Sequence[Verdict], environment: Mapping[str, object]
) -> Html:
    """The whole page."""
    header = [element("h1", _TITLE), blocks.paragraph(_conclusion(verdicts), "lead")]
    header += [blocks.paragraph(f"{said[0].upper()}{said[1:]}.", "warning") for said in warnings(rows)]
    sections = [
        _verdicts(choices, verdicts),
        _charts("Latency", rows, "p50_ms", "p99_ms", "From p50 (dot) to p99, from when the caller was free to call."),
        _charts("Heartbeat", rows, "heartbeat_p99_ms", "heartbeat_p99_ms", "p99 of how late a 1 ms sleep came back."),
        _rows(rows),
        _method(environment),
    ]
    return document(_TITLE, header, [section for section in sections if section])


def _conclusion(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return "Nothing is claimed of what was run: ours beside inline, thread and process is."
    return f"{sum(one.holds for one in verdicts)} of {len(verdicts)} claims hold."


def _verdicts(choices: Sequence[Choice], verdicts: Sequence[Verdict]) -> Html:
    if not verdicts:
        return Html("")
    lines = [
        blocks.Row(
            [
                place(one), one.text, f"{amount(one.measured)}{one.unit}",
                "-" if one.low != one.low else f"{amount(one.low)} to {amount(one.high)}",
                f"{'≤' if one.relation == '<=' else '≥'} {one.target:g}{one.unit}", one.word,
            ],
            "" if one.holds else "late",
        )
        for one in verdicts
    ]  # fmt: skip
    chosen = [f"{place(one)}: {one.chosen} ({one.reason})" for one in choices]
    return blocks.section(
        "What is claimed",
        element("ul", *(element("li", said) for said in chosen), class_="findings") if chosen else "",
        blocks.table(["function", "claim", "measured", "95 %", "target", "verdict"], lines, "claims", names=2),
    )


def _charts(heading: str, rows: Sequence[Row], middle: str, high: str, about: str) -> Html:
    panels = {}
    for callers in dict.fromkeys(row["callers"] for row in rows if row["function"]):
        some = [row for row in rows if row["callers"] == callers and row["function"] and row[high] is not None]
        if some:
            said = f"{callers} caller{'s' * (callers != 1)}"
            panels[said] = blocks.wide(_chart(f"{heading}, {said}", some, lambda row: (row[middle], row[high])))
    return blocks.section(heading, blocks.tabs(heading.lower(), panels), about=about) if panels else Html("")


def _chart(title: str, rows: Sequence[Row], ends: Callable[[Row], tuple[float, float]]) -> Html:
    groups: dict[str, list[Whisker]] = {}
    for row in rows:
        at, high = (max(value, _LEAST_MS) for value in ends(row))
        aside = "" if at == high else f"p99 {milliseconds(high)}"
        bar = Whisker(row["contender"], at, at, high, milliseconds(at), aside, row["contender"] == OURS)
        groups.setdefault(row["function"], []).append(bar)
    bars = [bar for group in groups.values() for bar in group]
    axis = LogAxis(min(bar.low for bar in bars), max(bar.high for bar in bars), LEFT, RIGHT)
    return whiskers(groups, axis, title, milliseconds)


def _rows(rows: Sequence[Row]) -> Html:
    lines = []
    for row in shown_rows(rows):
        cells = ["-" if (value := row[name]) is None else str(value) for name in COLUMNS]
        lines.append(blocks.Row(cells, "ours" if row["contender"] == OURS else ""))
    return blocks.section(
        "All figures",
        blocks.table(list(COLUMNS), lines, "all figures", names=3),
        about="cpu_ms_per_job: of all processes, workers and daemons too, heartbeat included. Bytes: of a call's "
        "arguments and its result, pickled (in band) and copied as they lie (out of band).",
    )


def _method(environment: Mapping[str, object]) -> Html:
    said = [f"{name}: {one.said}" for name, one in FUNCTIONS.items()]
    said += [f"{name}: {one.said}" for name, one in CONTENDERS.items()]
    return blocks.section(
        "How it was measured",
        element("ul", *(element("li", line) for line in said), class_="findings"),
        blocks.note(
            "Each run is a process of its own with a coroutine that sleeps 1 ms, and callers that call again as soon "
            "as they have their answer; a call's time begins there, so that waiting for one's turn on a busy loop "
            "counts. Contenders of one function run one after the other, in another order each repetition, with the "
            "same number of calls. It shows neither arrivals nor I/O: `greenlane lab run` does."
        ),
        blocks.note(", ".join(f"{name} {value}" for name, value in environment.items() if name != "greenlane_env")),
    )
