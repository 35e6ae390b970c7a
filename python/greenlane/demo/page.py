"""The result as one HTML file: no network, no script but its own, light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane.demo.conclusion import OURS
from greenlane.demo.rates import ENDPOINTS, OFFER_DEADLINE_MS
from greenlane.demo.rows import Row, Run, find, latencies_ms
from greenlane.demo.samples import Sample
from greenlane.demo.strips import StripPlace, strips
from greenlane.page import blocks
from greenlane.page.axis import LinearAxis
from greenlane.page.blocks import note, paragraph, section
from greenlane.page.charts.ridges import ridges
from greenlane.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane.page.document import document
from greenlane.page.html import Html, element, json_script

_STRIP_S: Final = 60.0
# How often the rider of the replay asks.
_POLL_S: Final = 1.0
_HERE: Final = Path(__file__).parent


def page(rows: Sequence[Row], runs: Sequence[Run], conclusion: str, environment: Mapping[str, object],
         warning: str = "") -> str:  # fmt: skip
    """The whole page.

    Args:
        rows: pooled ones.
        runs: with their samples: what distributions and the strip are drawn from.
        conclusion: the one sentence.
        environment: as in `--json`; printed at the foot.
        warning: shown under the conclusion; "" = none.
    """
    contenders = list(dict.fromkeys(run.key.contender for run in runs))
    order = [name for name in contenders if name != OURS] + [name for name in contenders if name == OURS]
    header = [
        note("greenlane demo pricing"),
        element("h1", "One pricing service, one worker each: who keeps the bike offers?"),
        paragraph(conclusion, "lead"),
        paragraph(warning, "warning") if warning else "",
    ]
    sections = [
        _flicker(runs, order),
        _success(rows, order),
        _latencies(rows, runs, order),
        _numbers(rows, order),
        _method(environment),
    ]
    styles, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return document("greenlane demo pricing", header, sections, styles=styles, script=script)


def in_turn(runs: Sequence[Run], contender: str) -> list[tuple[float, Run]]:
    """A contender's runs as one stretch of load, rising: (start in s, run), by utilisation, then repetition."""
    mine = [run for run in runs if run.key.contender == contender]
    mine.sort(key=lambda run: (run.key.utilisation_frac, run.key.repetition))
    found, began_s = [], 0.0
    for run in mine:
        found.append((began_s, run))
        began_s += run.seconds
    return found


def last_seconds(runs: Sequence[Run], contender: str, seconds: float = _STRIP_S) -> list[tuple[float, Sample]]:
    """A contender's bike requests in the last `seconds` of `in_turn`: (s from the start of what is shown, sample)."""
    stretch = in_turn(runs, contender)
    from_s = max(0.0, sum(run.seconds for _, run in stretch) - seconds)
    found = [
        (began_s + one.scheduled_ns / 1e9 - from_s, one)
        for began_s, run in stretch
        for one in run.samples
        if one.endpoint == "bikes"
    ]
    return [(at, sample) for at, sample in found if at >= 0]


def _flicker(runs: Sequence[Run], contenders: Sequence[str]) -> Html:
    marks = {name: last_seconds(runs, name) for name in contenders}
    marks = {name: found for name, found in marks.items() if found}
    if not marks:
        return json_script("strips", {"polls": []})
    longest = max((in_turn(runs, name) for name in marks), key=lambda stretch: sum(run.seconds for _, run in stretch))
    length = sum(run.seconds for _, run in longest)
    seconds = min(_STRIP_S, length)
    begins = {run.key.utilisation_frac: max(0.0, at - length + seconds) for at, run in reversed(longest)}
    ticks = {name: [(at, _late(sample)) for at, sample in found] for name, found in marks.items()}
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
        about=f"The app asks for every mode and drops what is not there after {OFFER_DEADLINE_MS:.0f} ms. Above: one "
        f"rider asking once a second, replayed. Below: every bike request of the last {seconds:.0f} s of load; red is "
        "an offer that flickered away.",
    )


def _phone(name: str, found: Sequence[tuple[float, Sample]]) -> Html:
    late = sum(_late(sample) for _, sample in found)
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


def _polls(found: Sequence[tuple[float, Sample]], seconds: float) -> list[tuple[int, int]]:
    polls, position = [], 0
    for number in range(max(1, int(seconds / _POLL_S))):
        while position < len(found) - 1 and found[position][0] < number * _POLL_S:
            position += 1
        sample = found[position][1]
        polls.append((int(_late(sample)), round(sample.latency_ms())))
    return polls


def _late(sample: Sample) -> bool:
    return sample.status != 200 or sample.latency_ms() > OFFER_DEADLINE_MS


def _success(rows: Sequence[Row], contenders: Sequence[str]) -> Html:
    groups: dict[str, list[Whisker]] = {}
    for utilisation in sorted({row.utilisation_frac for row in rows}):
        found = [find(rows, name, "bikes", utilisation) for name in contenders]
        groups[f"{utilisation:g} CPU"] = [whisker for row in found for whisker in _whiskers(row)]
    if not any(groups.values()):
        return Html("")
    axis = LinearAxis(0, 1, LEFT, RIGHT, 0.25)
    title = "share of bike offers within 500 ms by utilisation and contender"
    return section(
        "Bike offers within 500 ms",
        blocks.wide(whiskers(groups, axis, title, lambda share: f"{share:.0%}".replace("%", " %"))),
        about="Share of all that were asked for, with its 95 % interval (Wilson).",
    )


def _whiskers(row: Row | None) -> list[Whisker]:
    if row is None or row.within_deadline_frac is None:
        return []
    low, high = row.within_deadline_low_frac or 0.0, row.within_deadline_high_frac or 0.0
    said, aside = f"{row.within_deadline_frac * 100:.1f} %", f"[{low * 100:.1f}-{high * 100:.1f}]"
    return [Whisker(row.contender, low, row.within_deadline_frac, high, said, aside, row.contender == OURS)]


def _latencies(rows: Sequence[Row], runs: Sequence[Run], contenders: Sequence[str]) -> Html:
    utilisations = sorted({row.utilisation_frac for row in rows}, reverse=True)
    panels = {f"{utilisation:g} CPU": _charts(runs, contenders, utilisation) for utilisation in utilisations}
    return section(
        "Latency, from the scheduled send to the last byte",
        blocks.tabs("utilisation", panels) if panels else "",
        about="Logarithmic axis; each row is scaled to its own peak. Hollow dot p50, full dot p99; red is past the 500 "
        "ms deadline.",
    )


def _charts(runs: Sequence[Run], contenders: Sequence[str], utilisation: float) -> Html:
    chosen = [run for run in runs if run.key.utilisation_frac == utilisation]
    names = [name for name in ENDPOINTS if any(one.endpoint == name for run in chosen for one in run.samples)]
    # The most frequent light and the heaviest heavy endpoint first; the rest one click away.
    main = [name for name in ("bikes", "quote", "surge") if name in names][:2]
    drawn = {name: _figure(chosen, contenders, name) for name in names}
    rest = [drawn[name] for name in names if name not in main]
    more = blocks.details("The other endpoints", blocks.figures(rest)) if any(rest) else Html("")
    return Html(blocks.figures(drawn[name] for name in main) + more)


def _figure(runs: Sequence[Run], contenders: Sequence[str], endpoint: str) -> Html:
    found = {
        name: [
            value * 1e6
            for value in latencies_ms(
                one for run in runs if run.key.contender == name for one in run.samples if one.endpoint == endpoint
            )
        ]
        for name in contenders
    }
    found = {name: values for name, values in found.items() if values}
    if not found:
        return Html("")
    known = ENDPOINTS[endpoint]
    count = max(len(values) for values in found.values())
    deadline_ns = None if known.deadline_ms is None else known.deadline_ms * 1e6
    drawing = ridges(found, f"latency of {endpoint} by contender", deadline_ns=deadline_ns, strong=OURS)
    return blocks.figure(endpoint, drawing, f"{known.lane}, {count} requests a contender")


def _numbers(rows: Sequence[Row], contenders: Sequence[str]) -> Html:
    names = [name for name in ENDPOINTS if any(row.endpoint == name for row in rows)]
    heads = ["CPU asked", "contender", *(f"{name} p50 / p99" for name in names)]
    heads += ["done/s", "CPU used", "CPU ms/job", "PSS MB", "errors"]
    lines = []
    for utilisation in sorted({row.utilisation_frac for row in rows}):
        for number, contender in enumerate(contenders):
            total = find(rows, contender, "all", utilisation)
            if total is None:
                continue
            cells = [
                f"{utilisation:g}",
                contender,
                *(_pair(find(rows, contender, name, utilisation)) for name in names),
            ]
            cells += [f"{total.done_per_s:.1f}", f"{total.cpu_utilisation_frac:.2f}", f"{total.cpu_ms_per_job:.2f}"]
            cells += [f"{total.pss_mb:.0f}", str(total.errors + total.lost)]
            style = " ".join(["first"] * (number == 0) + ["ours"] * (contender == OURS))
            lines.append(blocks.Row(cells, style))
    return section(
        "All numbers",
        blocks.table(heads, lines, "all numbers", names=2),
        about="ms; CPU measured, of one core (dedicated: two workers together); CPU per job and memory of all service "
        "processes.",
    )


def _pair(row: Row | None) -> str:
    return "-" if row is None or row.p50_ms is None or row.p99_ms is None else f"{row.p50_ms:.0f} / {row.p99_ms:.0f}"


def _method(environment: Mapping[str, object]) -> Html:
    text = json.dumps(environment, indent=1, default=str)
    return section(
        "How it was measured",
        blocks.details("Environment, mix and rates", element("pre", element("code", text), class_="wide")),
        about="A Flask service and its upstream service (100 ms) on loopback, one gunicorn worker a contender "
        "(dedicated: two), all fed the same arrivals and amounts of work in turns: Poisson, open loop, timed from the "
        "scheduled send. CPU work is counted in iterations calibrated once, not by the wall clock; rates follow from "
        "the CPU per job that stock gthread was measured to need. What it does not show: more than one worker, a "
        "network, clients slower than loopback, days of uptime.",
    )
