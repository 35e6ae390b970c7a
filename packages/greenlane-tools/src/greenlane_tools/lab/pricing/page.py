"""The result as one HTML file: no network, no script but its own, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from greenlane_tools.lab.pricing.conclusion import OURS
from greenlane_tools.lab.pricing.strips import StripPlace, strips
from greenlane_tools.lab.run import sections
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import answered_well
from greenlane_tools.lab.run.runner import Result
from greenlane_tools.lab.run.tables import subjects
from greenlane_tools.page import blocks
from greenlane_tools.page.blocks import note, paragraph, section
from greenlane_tools.page.document import document
from greenlane_tools.page.html import Html, element, json_script

_STRIP_S: Final = 60.0
# How often the rider of the replay asks.
_POLL_S: Final = 1.0
_HERE: Final = Path(__file__).parent
# The class whose offers flicker.
_ASKED: Final = "bikes"


_ABOUT: Final = (
    "A Flask service and its upstream service (100 ms) on loopback, one gunicorn worker a contender (dedicated: two), "
    "all fed the same arrivals and amounts of work in turns: Poisson, open loop, timed from the scheduled send. CPU "
    "work is counted in iterations calibrated once, not by the wall clock; rates follow from the CPU per job that "
    "stock gthread was measured to need. What it does not show: more than one worker, a network, clients slower than "
    "loopback, days of uptime."
)


class Offer(NamedTuple):
    """One request for a bike."""

    # Seconds from the start of what is shown.
    at_s: float
    latency_ms: float
    # No offer, or too late for one.
    late: bool


def page(result: Result, conclusion: str, environment: Mapping[str, object], warning: str = "") -> Html:
    """The whole page.

    Args:
        result: rows and runs, with their samples.
        conclusion: the one sentence.
        environment: as in `--json`; printed at the foot.
        warning: shown under the conclusion; "" = none.
    """
    scenario, runs = result.scenario, result.runs
    order = sections.drawn_order(list(dict.fromkeys(run.turn.contender for run in runs)))
    header = [
        note("greenlane demo pricing"),
        element("h1", "One pricing service, one worker each: who keeps the bike offers?"),
        paragraph(conclusion, "lead"),
        paragraph(warning, "warning") if warning else "",
    ]
    parts = [
        _flicker(runs, order, scenario.request_class(_ASKED).deadline_ms),
        sections.in_time(scenario, result.rows, order, _ASKED),
        sections.distributions(scenario, runs, order, subjects(scenario)),
        sections.numbers(scenario, result.rows, order),
        sections.method(environment, _ABOUT),
    ]
    styles, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return document("greenlane demo pricing", header, parts, styles=styles, script=script)


def in_turn(runs: Sequence[Run], contender: str) -> list[tuple[float, Run]]:
    """A contender's runs as one stretch of load, rising: (start in s, run), by utilisation, then repetition."""
    mine = [run for run in runs if run.turn.contender == contender]
    mine.sort(key=lambda run: (run.turn.level.utilisation_frac or 0.0, run.turn.repetition))
    found, began_s = [], 0.0
    for run in mine:
        found.append((began_s, run))
        began_s += run.seconds
    return found


def last_seconds(runs: Sequence[Run], contender: str, deadline_ms: float, seconds: float = _STRIP_S) -> list[Offer]:
    """A contender's bike requests in the last `seconds` of `in_turn`."""
    stretch = in_turn(runs, contender)
    from_s = max(0.0, sum(run.seconds for _, run in stretch) - seconds)
    found = []
    for began_s, run in stretch:
        bikes = run.samples.of(_ASKED)
        latencies = bikes.latency_ms()
        late = ~answered_well(bikes) | (latencies > deadline_ms)
        at_s = bikes.scheduled_ns / 1e9 + began_s - from_s
        found += [Offer(*one) for one in zip(at_s.tolist(), latencies.tolist(), late.tolist(), strict=True)]
    return [offer for offer in found if offer.at_s >= 0]


def _flicker(runs: Sequence[Run], contenders: Sequence[str], deadline_ms: float) -> Html:
    marks = {name: last_seconds(runs, name, deadline_ms) for name in contenders}
    marks = {name: found for name, found in marks.items() if found}
    if not marks:
        return json_script("strips", {"polls": []})
    longest = max((in_turn(runs, name) for name in marks), key=lambda stretch: sum(run.seconds for _, run in stretch))
    length = sum(run.seconds for _, run in longest)
    seconds = min(_STRIP_S, length)
    begins = {run.turn.level.utilisation_frac or 0.0: max(0.0, at - length + seconds) for at, run in reversed(longest)}
    ticks = {name: [(offer.at_s, offer.late) for offer in found] for name, found in marks.items()}
    replay = {
        "seconds": seconds,
        "left": StripPlace.left,
        "width": StripPlace.width,
        "polls": [_polls(found, seconds) for found in marks.values()],
    }
    return section(
        "What a rider sees as the load rises",
        element("div", *(_phone(name, marks[name]) for name in marks), class_="phones"),
        blocks.wide(strips(ticks, seconds, begins)),
        json_script("strips", replay),
        about=f"The app asks for every mode and drops what is not there after {deadline_ms:.0f} ms. Above: one "
        f"rider asking once a second, replayed. Below: every bike request of the last {seconds:.0f} s of load; red is "
        "an offer that flickered away.",
    )


def _phone(name: str, found: Sequence[Offer]) -> Html:
    late = sum(offer.late for offer in found)
    return element(
        "div",
        element("b", name),
        _offer("Ride", "12 min"),
        _offer("Transit", "19 min"),
        element("div", element("span", "Bike"), element("span", class_="answer"), class_="offer bike"),
        element("small", f"{100 - 100 * late / len(found):.1f} % of offers in time"),
        class_="phone ours" if name == OURS else "phone",
    )


def _offer(mode: str, answer: str) -> Html:
    return element("div", element("span", mode), element("span", answer), class_="offer")


def _polls(found: Sequence[Offer], seconds: float) -> list[tuple[int, int]]:
    polls, position = [], 0
    for number in range(max(1, int(seconds / _POLL_S))):
        while position < len(found) - 1 and found[position].at_s < number * _POLL_S:
            position += 1
        polls.append((int(found[position].late), round(found[position].latency_ms)))
    return polls
