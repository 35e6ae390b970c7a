"""What a caller of one class sees as the load rises: each contender's requests in time, and those that came too late.

A card a contender replays one caller that asks once a second; below it a strip a contender has a tick for each request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final, NamedTuple

from greenlane_tools.lab.run.payers import OURS
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import answered_well
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.page import blocks
from greenlane_tools.page.html import Html, element, json_script
from greenlane_tools.page.svg import drawing, label, line, path

__all__ = ["Due", "files", "in_turn", "last_seconds", "strips"]

#: The strip shows this much of the load's end.
_STRIP_S: Final = 60.0
#: How often the caller of the replay asks.
_POLL_S: Final = 1.0
#: Where the strip's time axis lies, in the SVG's own units; the replay needs it too.
_LEFT, _WIDTH, _ROW = 140, 760, 30


class Due(NamedTuple):
    """One request."""

    # Seconds from the start of what is shown.
    at_s: float
    latency_ms: float
    # Answered too late, or not well.
    late: bool


def files() -> tuple[str, str]:
    """Styles and script of the section."""
    here = resources.files(__package__)
    return (here / "strips.css").read_text("utf-8"), (here / "strips.js").read_text("utf-8")


def strips(runs: Sequence[Run], contenders: Sequence[str], one: RequestClass) -> Html:
    """The section of a class that has a deadline; nothing when it was not asked for."""
    found = {name: last_seconds(runs, name, one) for name in contenders}
    found = {name: marks for name, marks in found.items() if marks}
    if not found:
        return json_script("strips", {"polls": []})
    longest = max((in_turn(runs, name) for name in found), key=lambda stretch: sum(run.seconds for _, run in stretch))
    length = sum(run.seconds for _, run in longest)
    seconds = min(_STRIP_S, length)
    begins = {run.turn.level.label: max(0.0, at - length + seconds) for at, run in reversed(longest)}
    polls = [_polls(marks, seconds) for marks in found.values()]
    return blocks.section(
        f"What a caller of {one.name} sees as the load rises",
        element("div", *(_card(name, one.name, marks) for name, marks in found.items()), class_="phones"),
        blocks.wide(_drawn(one.name, found, seconds, begins)),
        json_script("strips", {"seconds": seconds, "left": _LEFT, "width": _WIDTH, "polls": polls}),
        about=f"Clients drop what is not there after {one.deadline_ms:.0f} ms. Above: one caller that asks once a "
        f"second, replayed. Below: every request of the last {seconds:.0f} s of load; red is what came too late.",
    )


def in_turn(runs: Sequence[Run], contender: str) -> list[tuple[float, Run]]:
    """A contender's runs as one stretch of load, rising: (start in s, run), by level, then repetition."""
    mine = [run for run in runs if run.turn.contender == contender]
    mine.sort(key=lambda run: (run.turn.level.utilisation_frac or 0.0, run.turn.level.rate_factor, run.turn.repetition))
    found, began_s = [], 0.0
    for run in mine:
        found.append((began_s, run))
        began_s += run.seconds
    return found


def last_seconds(runs: Sequence[Run], contender: str, one: RequestClass, seconds: float = _STRIP_S) -> list[Due]:
    """A contender's requests of a class in the last `seconds` of `in_turn`."""
    stretch = in_turn(runs, contender)
    from_s = max(0.0, sum(run.seconds for _, run in stretch) - seconds)
    found: list[Due] = []
    for began_s, run in stretch:
        samples = run.samples.of(one.name)
        latencies = samples.latency_ms()
        late = ~answered_well(samples) | (latencies > one.deadline_ms)
        at_s = samples.scheduled_ns / 1e9 + began_s - from_s
        found += [Due(*each) for each in zip(at_s.tolist(), latencies.tolist(), late.tolist(), strict=True)]
    return [each for each in found if each.at_s >= 0]


def _card(contender: str, name: str, found: Sequence[Due]) -> Html:
    in_time = 100 - 100 * sum(each.late for each in found) / len(found)
    return element(
        "div",
        element("b", contender),
        element("div", element("span", name), element("span", class_="answer"), class_="offer asked"),
        element("small", f"{in_time:.1f} % in time"),
        class_="phone ours" if contender == OURS else "phone",
    )


def _polls(found: Sequence[Due], seconds: float) -> list[tuple[int, int]]:
    polls, position = [], 0
    for number in range(max(1, int(seconds / _POLL_S))):
        while position < len(found) - 1 and found[position].at_s < number * _POLL_S:
            position += 1
        polls.append((int(found[position].late), round(found[position].latency_ms)))
    return polls


def _drawn(name: str, found: Mapping[str, Sequence[Due]], seconds: float, begins_s: Mapping[str, float]) -> Html:
    """A row a contender; `begins_s`: where on the axis the load of each level begins."""
    bottom, parts = _ROW * len(found) + 22, []
    for level, begin_s in begins_s.items():
        x = _LEFT + begin_s / seconds * _WIDTH
        parts += [label(x + 4, 9, level, "soft"), line(x, 0, x, bottom, "base")]
    for number, (contender, marks) in enumerate(found.items()):
        parts += _strip(contender, marks, 16 + _ROW * number, seconds)
    for second in range(0, int(seconds) + 1, 10):
        parts.append(label(_LEFT + second / seconds * _WIDTH, bottom + 14, f"{second} s", "soft", "middle"))
    parts.append(Html(f'<line class="cursor" x1="0" x2="0" y1="0" y2="{bottom}" transform="translate({_LEFT} 0)"/>'))
    title = f"requests of {name} over time by contender, in time and too late"
    return drawing(_LEFT + _WIDTH + 150, bottom + 20, parts, title)


def _strip(contender: str, marks: Sequence[Due], y: float, seconds: float) -> list[Html]:
    parts = [label(0, y + 17, contender, "ours" if contender == OURS else "", room=_LEFT - 10)]
    for late in (False, True):
        ticks = "".join(f"M{_LEFT + one.at_s / seconds * _WIDTH:.1f} {y}v22" for one in marks if one.late == late)
        parts.append(path(ticks, "tick-late" if late else "tick-ok"))
    missed = sum(one.late for one in marks)
    said = label(_LEFT + _WIDTH + 12, y + 17, f"{missed} of {len(marks)} late", "late" if missed else "soft")
    return [*parts, said]
