"""The result as one HTML file: no network, no script but its own, light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from greenlane.demo import charts
from greenlane.demo.conclusion import OURS
from greenlane.demo.rates import ENDPOINTS, OFFER_DEADLINE_MS
from greenlane.demo.rows import Row, Run, find, latencies_ms
from greenlane.demo.samples import Sample

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
    body = [
        '<header><p class="note">greenlane demo pricing</p><h1>One pricing service, one worker each: who keeps the '
        f"bike offers?</h1><p class='lead'>{escape(conclusion)}</p>",
        f'<p class="warning">{escape(warning)}</p>' if warning else "",
        "</header>",
        _flicker(runs, order),
        _success(rows, order),
        _latencies(rows, runs, order),
        _numbers(rows, order),
        _method(environment),
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>greenlane demo pricing</title><style>{(_HERE / 'page.css').read_text(encoding='utf-8')}</style></head>"
    )
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return f"{head}<body><main>{''.join(body)}</main><script>{script}</script></body></html>\n"


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


def _flicker(runs: Sequence[Run], contenders: Sequence[str]) -> str:
    marks = {name: last_seconds(runs, name) for name in contenders}
    marks = {name: found for name, found in marks.items() if found}
    if not marks:
        return '<script type="application/json" id="strips">{"polls": []}</script>'
    longest = max((in_turn(runs, name) for name in marks), key=lambda stretch: sum(run.seconds for _, run in stretch))
    length = sum(run.seconds for _, run in longest)
    seconds = min(_STRIP_S, length)
    begins = {run.key.utilisation_frac: max(0.0, at - length + seconds) for at, run in reversed(longest)}
    ticks = {name: [(at, _late(sample)) for at, sample in found] for name, found in marks.items()}
    replay = {
        "seconds": seconds,
        "left": charts.StripPlace.left,
        "width": charts.StripPlace.width,
        "polls": [_polls(found, seconds) for found in marks.values()],
    }
    phones = "".join(_phone(name, marks[name]) for name in marks)
    return (
        f"<section><h2>What a rider sees as the load rises</h2><p class='note'>The app asks for every mode and "
        f"drops what is not there after {OFFER_DEADLINE_MS:.0f} ms. Above: one rider asking once a second, replayed. "
        f"Below: every bike request of the last {seconds:.0f} s of load; red is an offer that flickered away.</p>"
        f'<div class="phones">{phones}</div><div class="wide">{charts.strips(ticks, seconds, begins)}</div>'
        f'<script type="application/json" id="strips">{json.dumps(replay)}</script></section>'
    )


def _phone(name: str, found: Sequence[tuple[float, Sample]]) -> str:
    late = sum(_late(sample) for _, sample in found)
    share = f"{100 - 100 * late / len(found):.1f} % of offers in time"
    return (
        f'<div class="phone{" ours" if name == OURS else ""}"><b>{escape(name)}</b>'
        '<div class="offer"><span>Ride</span><span>12 min</span></div>'
        '<div class="offer"><span>Transit</span><span>19 min</span></div>'
        f'<div class="offer bike"><span>Bike</span><span class="answer"></span></div><small>{share}</small></div>'
    )


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


def _success(rows: Sequence[Row], contenders: Sequence[str]) -> str:
    cells: dict[float, list[Row]] = {}
    for utilisation in sorted({row.utilisation_frac for row in rows}):
        found = [find(rows, name, "bikes", utilisation) for name in contenders]
        cells[utilisation] = [row for row in found if row is not None and row.within_deadline_frac is not None]
    if not any(cells.values()):
        return ""
    return (
        "<section><h2>Bike offers within 500 ms</h2><p class='note'>Share of all that were asked for, with its 95 % "
        f"interval (Wilson).</p><div class='wide'>{charts.shares(cells)}</div></section>"
    )


def _latencies(rows: Sequence[Row], runs: Sequence[Run], contenders: Sequence[str]) -> str:
    utilisations = sorted({row.utilisation_frac for row in rows}, reverse=True)
    tabs, panels = [], []
    for number, utilisation in enumerate(utilisations):
        checked, shown = (" checked", " shown") if number == 0 else ("", "")
        radio = f'<input type="radio" name="utilisation" value="{utilisation:g}"{checked}>'
        tabs.append(f"<label>{radio}{utilisation:g} CPU</label>")
        panels.append(
            f'<div class="panel{shown}" data-of="{utilisation:g}">{_charts(runs, contenders, utilisation)}</div>'
        )
    return (
        "<section><h2>Latency, from the scheduled send to the last byte</h2><p class='note'>Logarithmic axis; each row "
        "is scaled to its own peak. Hollow dot p50, full dot p99; red is past the 500 ms deadline.</p>"
        f'<div class="tabs">{"".join(tabs)}</div>{"".join(panels)}</section>'
    )


def _charts(runs: Sequence[Run], contenders: Sequence[str], utilisation: float) -> str:
    chosen = [run for run in runs if run.key.utilisation_frac == utilisation]
    names = [name for name in ENDPOINTS if any(one.endpoint == name for run in chosen for one in run.samples)]
    # The most frequent light and the heaviest heavy endpoint first; the rest one click away.
    main = [name for name in ("bikes", "quote", "surge") if name in names][:2]
    figures = {name: _figure(chosen, contenders, name) for name in names}
    rest = "".join(figures[name] for name in names if name not in main)
    more = f"<details><summary>The other endpoints</summary><div class='charts'>{rest}</div></details>" if rest else ""
    return f"<div class='charts'>{''.join(figures[name] for name in main)}</div>{more}"


def _figure(runs: Sequence[Run], contenders: Sequence[str], endpoint: str) -> str:
    found = {
        name: latencies_ms(
            one for run in runs if run.key.contender == name for one in run.samples if one.endpoint == endpoint
        )
        for name in contenders
    }
    found = {name: values for name, values in found.items() if values}
    if not found:
        return ""
    known = ENDPOINTS[endpoint]
    count = max(len(values) for values in found.values())
    caption = f"{endpoint} <span>{known.lane}, {count} requests a contender</span>"
    return f"<figure><figcaption>{caption}</figcaption>{charts.distributions(found, known.deadline_ms)}</figure>"


def _numbers(rows: Sequence[Row], contenders: Sequence[str]) -> str:
    names = [name for name in ENDPOINTS if any(row.endpoint == name for row in rows)]
    heads = "".join(f"<th>{escape(name)} p50 / p99</th>" for name in names)
    lines = []
    for utilisation in sorted({row.utilisation_frac for row in rows}):
        for number, contender in enumerate(contenders):
            total = find(rows, contender, "all", utilisation)
            if total is None:
                continue
            cells = "".join(f"<td>{_pair(find(rows, contender, name, utilisation))}</td>" for name in names)
            style = " ".join(["first"] * (number == 0) + ["ours"] * (contender == OURS))
            lines.append(
                f'<tr class="{style}"><td>{utilisation:g}</td><td>{escape(contender)}</td>{cells}'
                f"<td>{total.done_per_s:.1f}</td><td>{total.cpu_utilisation_frac:.2f}</td>"
                f"<td>{total.cpu_ms_per_job:.2f}</td><td>{total.pss_mb:.0f}</td>"
                f"<td>{total.errors + total.lost}</td></tr>"
            )
    return (
        "<section><h2>All numbers</h2><p class='note'>ms; CPU measured, of one core (dedicated: two workers "
        "together); CPU per job and memory of all service processes.</p><div class='wide'><table><tr><th>CPU asked</th>"
        f"<th>contender</th>{heads}<th>done/s</th><th>CPU used</th><th>CPU ms/job</th><th>PSS MB</th>"
        "<th>errors</th></tr>"
        f"{''.join(lines)}</table></div></section>"
    )


def _pair(row: Row | None) -> str:
    return "-" if row is None or row.p50_ms is None or row.p99_ms is None else f"{row.p50_ms:.0f} / {row.p99_ms:.0f}"


def _method(environment: Mapping[str, object]) -> str:
    return (
        "<section><h2>How it was measured</h2><p class='note'>A Flask service and its upstream service (100 ms) on "
        "loopback, one gunicorn worker a contender (dedicated: two), all fed the same arrivals and amounts of work in "
        "turns: Poisson, open loop, timed from the scheduled send. CPU work is counted in iterations calibrated once, "
        "not by the wall clock; rates follow from the CPU per job that stock gthread was measured to need. What it "
        "does not show: more than one worker, a network, clients slower than loopback, days of uptime.</p>"
        "<details><summary>Environment, mix and rates</summary><pre class='wide'><code>"
        f"{escape(json.dumps(environment, indent=1, default=str))}</code></pre></details></section>"
    )
