"""docs/offers-reasoning.md: its figures and drawings are computed when it is written; the last table is measured."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from greenlane_tools.lab.queueing import mean_value_analysis, most_per_s
from greenlane_tools.page.quantities import milliseconds
from offers.reasoning.cells import CELL_MS, Lived, Order, Request, run
from offers.reasoning.drawing import LEGEND, drawn
from offers.reasoning.reconstruction import BEST, CHOSEN, MEASURED, NETWORK, WATCHED, candidates

__all__ = ["HEAVY", "Level", "OFFER", "levels", "page", "seen_among"]

_WIDTH: Final = 120
#: So many requests are run for each number at once.
_REQUESTS: Final = 400
#: One offer whose upstream takes 110 ms, and what computes meanwhile: 40 receipts of 130 ms, all there at 30 ms.
OFFER: Final = Request((1, 1), (11,))
HEAVY: Final = (Request((13,), (), arrives=3),) * 40
#: What the article's application measured for its upstream's 110 ms.
ARTICLE_MS: Final = 5_300


class Level(NamedTuple):
    """What so many requests at once come to."""

    places: int
    done_per_s: float
    busy_frac: float
    #: Mean and largest, as the application measures its network.
    network_ms: float
    most_ms: float
    #: Mean, from the first instruction to the end.
    request_ms: float


@functools.cache
def levels() -> tuple[Level, ...]:
    """From one at once to all ten."""
    return tuple(_level(places) for places in range(1, CHOSEN.requests + 1))


def seen_among(heavy: Sequence[Request], order: Order) -> int:
    """ms that the offer measures for its upstream's 110, with those requests beside it."""
    [(_, seen)] = run([OFFER, *heavy], order)[0].seen
    return seen * CELL_MS


def page(measured: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        measured: what `python -m offers.slow_offer --json` has written.
    """
    found = levels()
    fitting = [one for one in candidates() if one.fits]
    return "\n".join(
        [
            _prose(
                _HEAD,
                network=NETWORK * CELL_MS,
                measured=MEASURED * CELL_MS,
                more=(MEASURED - NETWORK) * CELL_MS,
                fitting=len(fitting),
                all=len(candidates()),
                before=CHOSEN.before * CELL_MS,
                requests=CHOSEN.requests,
            ),
            _table(
                ["CPU before", "CPU after", "requests", "at once that fill the CPU"],
                [
                    [f"{one.before * CELL_MS} ms", f"{one.after * CELL_MS} ms", str(one.requests), f"{one.knee:.2f}"]
                    for one in fitting
                ],
            ),
            _prose(_DRAWN),
            _block(drawn(run([CHOSEN.request] * CHOSEN.requests), WATCHED)),
            _prose(_SEEN, network=NETWORK * CELL_MS, more=(MEASURED - NETWORK) * CELL_MS),
            _block(drawn(run([CHOSEN.request] * CHOSEN.requests, places=BEST), WATCHED)),
            _three(found),
            _table(
                ["at once", "a second", "CPU busy", "network of 70 ms, measured", "at most", "a request"],
                [_row(level) for level in found],
            ),
            _theory(found),
            _heavy(),
            _measured(measured),
        ]
    )


def _level(places: int) -> Level:
    lives: list[Lived] = run([CHOSEN.request] * _REQUESTS, places=places)
    end = max(life.ended for life in lives)
    seen = [cells * CELL_MS for life in lives for _, cells in life.seen]
    return Level(
        places=places,
        done_per_s=_REQUESTS / (end * CELL_MS / 1000),
        busy_frac=_REQUESTS * CHOSEN.request.cpu / end,
        network_ms=sum(seen) / len(seen),
        most_ms=max(seen),
        request_ms=sum(life.ended - life.began for life in lives) * CELL_MS / len(lives),
    )


def _three(found: Sequence[Level]) -> str:
    three, ten = found[BEST - 1], found[-1]
    return _prose(
        _THREE,
        busy=f"{100 * three.busy_frac:.1f} %",
        per_s=f"{three.done_per_s:.1f}",
        most=f"{most_per_s(CHOSEN.request.cpu * CELL_MS, NETWORK * CELL_MS, BEST):.1f}",
        network=f"{three.network_ms:.0f}",
        request=f"{three.request_ms:.0f}",
        alone=CHOSEN.request.alone * CELL_MS,
        ten_per_s=f"{ten.done_per_s:.1f}",
        ten_request=f"{ten.request_ms:.0f}",
        knee=f"{CHOSEN.knee:.2f}",
    )


def _row(level: Level) -> list[str]:
    return [
        str(level.places),
        f"{level.done_per_s:.1f}",
        f"{100 * level.busy_frac:.0f} %",
        f"{level.network_ms:.0f} ms",
        f"{level.most_ms:.0f} ms",
        f"{level.request_ms:.0f} ms",
    ]


def _theory(found: Sequence[Level]) -> str:
    means = mean_value_analysis(CHOSEN.request.cpu * CELL_MS, NETWORK * CELL_MS, BEST)
    return _prose(
        _THEORY,
        cell_ms=f"{found[BEST - 1].request_ms:.0f}",
        mva_ms=f"{means.latency_ms:.0f}",
        mva_busy=f"{100 * means.utilisation_frac:.0f} %",
    )


def _heavy() -> str:
    network = OFFER.waits[0] * CELL_MS
    stock, light = seen_among(HEAVY, Order.GEVENT), seen_among(HEAVY, Order.LIGHT)
    both = [OFFER, *HEAVY]
    return _prose(
        _HEAVY,
        count=len(HEAVY),
        each=HEAVY[0].cpu * CELL_MS,
        network=network,
        stock=f"{stock / 1000:.2f}",
        factor=f"{stock / network:.0f}",
        light=light,
        apart=seen_among((), Order.GEVENT),
        done=_done_s(both, Order.GEVENT),
        done_apart=_done_s(HEAVY, Order.GEVENT),
        done_light=_done_s(both, Order.LIGHT),
        article=ARTICLE_MS / 1000,
        times=f"{ARTICLE_MS / network:.0f}",
    )


def _measured(document: Mapping[str, Any]) -> str:
    [row], where = document["rows"], document["environment"]
    clocks = [
        ("the upstream, of itself", row["upstream_ms"]),
        ("a relay on the wire", row["relay_ms"]),
        ("the recording, from the kernel's stamps", row["wire_ms"]),
        ("the application", row["application_ms"]),
    ]
    first, *others = row["culprits"]
    load = where["load_average_1min"]
    said = _prose(
        _MEASURED,
        processor=where["processor"],
        cores=where["cores"],
        python=where["python"],
        gunicorn=where["versions"]["gunicorn"],
        gevent=where["versions"]["gevent"],
        busy=f", busy with other work (load {load:.0f})" if load > where["cores"] else "",
        offer=milliseconds(row["offer_ms"]),
        factor=f"{row['factor']:.0f}",
        culprit=first["culprit"],
        place=first["place"],
        wait=milliseconds(first["wait_ms"]),
        others=milliseconds(sum(one["wait_ms"] for one in others)),
    )
    told = [[who, f"{ms:.1f} ms" if ms < 1_000 else milliseconds(ms)] for who, ms in clocks]
    table = _table(["who looked at a clock", "the call took"], told)
    before, _, after = said.rpartition("\n\n")
    return f"{before}\n\n{table}\n{after}"


def _done_s(requests: Sequence[Request], order: Order) -> str:
    return f"{max(life.ended for life in run(requests, order)) * CELL_MS / 1000:.2f}"


def _prose(text: str, **figures: object) -> str:
    """Paragraphs with their figures, wrapped anew; tables and headings stay."""
    paragraphs = text.format(**figures).split("\n\n")
    kept = [
        one if one.startswith(("#", "<", "|")) else textwrap.fill(" ".join(one.split()), _WIDTH) for one in paragraphs
    ]
    return "\n\n".join(kept).rstrip("\n") + "\n"


def _block(text: str) -> str:
    return f"```text\n{text}\n\n{LEGEND}\n```\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---:|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


_HEAD: Final = """\
# Seventy milliseconds that read a hundred and eighty

<!-- Written by `make docs` (offers.reasoning): figures and drawings are computed, the last table is measured. -->

A green thread that calls somebody waits twice: until the reply is there, and until its loop runs it again.
The fourth
part of Lyft's series on gevent shows it by a drawing in cells of ten milliseconds: the network says that
Request 7's
call took {network} ms, the application says {measured}, because {more} ms of other requests' CPU lay between
the reply and the
next instruction; with three requests at once, it adds, the picture would be nearly perfect.

The drawing is lost: only its text is left. **The cells below are ours**, put together so that they say what
the text
says. What follows is computed from them by a simulator of our own (`offers/reasoning/cells.py`), which tests hold
against the laboratory's models of such loops. Of requests that are all alike and all there at the beginning, in
whole cells, {all} rows give Request 7 its
{network} and {measured} ms, and {fitting} of them are best with three at once:
"""
_DRAWN: Final = """\
Each of them is the same story; this is the one with as much CPU before the call as after it. gevent's loop
runs the
new requests first, then looks at its sockets and runs everything that it finds ready, and then looks again:
"""
_SEEN: Final = """\
Request 7's reply is there after {network} ms. Six others were ready before it, and it waits {more} ms for
their CPU. Nothing
is wrong with the network, with the upstream, or with any one request; no slice of CPU is longer than two
cells, so a
detector of blocked loops has nothing to say.

## Three at once

The same ten, and at most three of them begun:
"""
_THREE: Final = """\
{knee} requests fill this CPU: (CPU + network) / CPU. Three keep it {busy} busy, {per_s} requests a second of
the {most} that no
order can exceed, and the application measures {network} ms for its network: a request takes {request} ms,
where one that is alone
takes {alone}. With all ten at once it is {ten_per_s} a second, no more, and each takes {ten_request} ms.
Everything beyond three is
waiting. (In the long run, from the first instruction; who waits for a place waits before that, where no clock
of the
application looks.)
"""
_THEORY: Final = """\
Requests that are not all alike do worse at the same number: with exponential bursts of the same means theory (mean
value analysis) has three at once keep the CPU {mva_busy} busy and take {mva_ms} ms, in place of {cell_ms}.
The cells are the kindest case.
"""
_HEAVY: Final = """\
## One heavy endpoint is enough

What brought down the offers was not ten alike. It was requests that compute for long, in the same process.
One offer
asks an upstream that takes {network} ms; meanwhile {count} receipts of {each} ms arrive, which is what a
partner's monthly run is:

| | the offer measures for its {network} ms | all is done after |
|---|---:|---:|
| one gevent loop | {stock} s ({factor}×) | {done} s |
| the offer in a process of its own | {apart} ms | {done_apart} s |
| the same process, the shorter burst first (permits, at a cell's grain) | {light} ms | {done_light} s |

The receipts lose nothing worth the name: what changes is who waits for whom. The article's pair is {network}
ms and
{article} s, and it calls that about 35 times; it is {times}.
"""
_MEASURED: Final = """\
## And a real one

`python -m offers.slow_offer` does the same to the pricing service under stock gunicorn {gunicorn} and gevent {gevent}:
one offer asks an upstream that takes about 110 ms; forty receipts arrive while it waits. The whole is recorded, and
`greenlane report` finds out who it was. Once, on {processor}, {cores} cores, CPython {python}{busy}:

The offer took {offer}. Of one of its calls four clocks said, the last {factor} times the first:

While the application waited, {culprit} ({place}) had the CPU for {wait}, everybody else together for {others}.
"""
