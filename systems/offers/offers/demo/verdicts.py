"""What must be shown of offers, against what was measured in the same run."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import add
from typing import Any, Final

from greenlane_tools.lab import verdict
from greenlane_tools.lab.columns import columns
from greenlane_tools.lab.demo import MOST_EXACT, cell, must_show
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import amount, milliseconds, share

from .counts import Counts
from .turn import Turn

__all__ = ["FEWEST_OFFERS", "sentence", "shown", "verdicts_of", "warnings"]


#: What the stock server shows where the mix is bad.
_STOCK: Final = "gevent"
_SUCCESS: Final = 0.995
_P99_P95: Final = 2.0
_P999_P95: Final = 3.0
#: What a fix must reach.
_FIXED: Final = ("greenlane", "greenlane-one-core", "greenlane-soft")
#: Of them, the one that is a change of the worker class and nothing else.
_NO_PROCESS: Final = "greenlane"
_MISSED: Final = 3
_FLAT: Final = 1.3
#: This many offers make a claim about three of them; fewer are held to the same share, rounded up.
FEWEST_OFFERS: Final = 60_000

Runs = Sequence[Turn]


def verdicts_of(turns: Runs, bad: str) -> list[Verdict]:
    """Region by region; none of a contender that did not run.

    Args:
        turns: what was measured.
        bad: the region of which it is claimed that the stock server fails in it.
    """
    found: list[Verdict] = []
    for region in dict.fromkeys(one.region for one in turns):
        mine: dict[str, list[Turn]] = {}
        for one in turns:
            if one.region == region:
                mine.setdefault(one.contender, []).append(one)
        for name, runs in mine.items():
            if name == _STOCK and region == bad:
                found += _bad(region, runs)
            elif name in _FIXED:
                found += _good(region, name, runs)
        if _STOCK in mine and _NO_PROCESS in mine:
            found.append(_no_process(region, mine[_STOCK], mine[_NO_PROCESS]))
    return found


def _bad(region: str, runs: Runs) -> Iterator[Verdict]:
    counts = _sum(runs)
    remark = f"{counts.late:,} of {counts.ended:,} bike and scooter offers were late"
    if others := counts.refused + counts.failed:
        remark += f"; {others:,} that were refused or failed do not count"
    yield Verdict(f"{_STOCK} in {region}: offers in time", *verdict.alone(runs, _share), "<=", _SUCCESS, remark)
    yield _ratio(f"{_STOCK} in {region}: offers' p99 ÷ p95", runs, 0.99, ">=", _P99_P95)
    if counts.samples >= MOST_EXACT:
        yield _ratio(f"{_STOCK} in {region}: offers' p99.9 ÷ p95", runs, 0.999, ">=", _P999_P95)


def _good(region: str, name: str, runs: Runs) -> Iterator[Verdict]:
    counts = _sum(runs)
    missed, target = counts.ended - counts.made, math.ceil(_MISSED * min(1.0, counts.ended / FEWEST_OFFERS))
    few = f"; the claim is about {FEWEST_OFFERS:,}" if counts.ended < FEWEST_OFFERS else ""
    remark = f"of {counts.ended:,}{few}"
    text = f"{name} in {region}: bike and scooter offers missed"
    yield Verdict(text, missed, math.nan, math.nan, "<=", target, remark)
    # Of fewer samples the 99.9th percentile is the largest one.
    share, word = (0.999, "p99.9") if counts.samples >= MOST_EXACT else (0.99, "p99")
    yield _ratio(f"{name} in {region}: offers' {word} ÷ p95", runs, share, "<=", _FLAT)


def _no_process(region: str, stock: Runs, ours: Runs) -> Verdict:
    most, least = (max(run.used.processes for run in ours), min(run.used.processes for run in stock))
    text = f"{_NO_PROCESS} in {region}: processes beyond {_STOCK}'s"
    return Verdict(text, most - least, math.nan, math.nan, "<=", 0, f"{most} and {least}")


def _ratio(text: str, runs: Runs, share: float, relation: str, target: float) -> Verdict:
    def statistic(some: Runs) -> float:
        counts = _sum(some)
        return counts.quantile_ms(share) / counts.quantile_ms(0.95)

    counts = _sum(runs)
    remark = f"{milliseconds(counts.quantile_ms(share))} and {milliseconds(counts.quantile_ms(0.95))}"
    return Verdict(text, *verdict.alone(runs, statistic), relation, target, remark)


def _share(runs: Runs) -> float:
    """In time, of all that ended; NaN of none. A server that answers nothing is broken, which is another claim."""
    counts = _sum(runs)
    return 1 - counts.late / counts.ended if counts.ended else math.nan


def _sum(runs: Runs) -> Counts:
    return functools.reduce(add, (run.counts for run in runs))


# --- Rows and verdicts for people.

Row = Mapping[str, Any]
_OFFERS: Final = (
    ("contender", "contender"), ("region", "region"), ("offers", "samples"), ("missed", "missed"),
    ("success", "success_frac"), ("nines", "nines_text"), ("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms"),
    ("p99.9", "p999_ms"), ("flicker/min", "flicker_per_minute"), ("wasted CPU", "wasted_cpu_frac"),
    ("CPU of a core", "cpu_utilisation_frac"), ("processes", "processes"), ("MB", "pss_mb"),
)  # fmt: skip
_OTHERS: Final = (
    ("contender", "contender"), ("region", "region"), ("requests", "endpoint"), ("per s", "done_per_s"),
    ("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms"), ("errors", "errors"), ("given up", "lost"),
)  # fmt: skip
_ADDED: Final = (
    ("contender", "contender"), ("at", "utilisation_frac"), ("measured", "cpu_utilisation_frac"),
    ("computing/s", "computing_per_s"), ("offers", "samples"), ("added p50", "p50_ms"), ("added p95", "p95_ms"),
    ("added p99", "p99_ms"), ("own time p50", "alone_p50_ms"), ("errors", "errors"), ("given up", "lost"),
)  # fmt: skip
#: Near 0.9 of a core a tenth more or less is half the wait, or twice.
_MOST_OFF: Final = 0.03
#: Of the time of a run: more is the machine's doing, not the contender's.
_MOST_WAIT: Final = 0.05


def shown(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> str:
    """All tables and verdicts."""
    parts = []
    if offers := [{**row, "nines_text": _nines(row)} for row in rows if row["endpoint"] == "offers"]:
        title = "Bike and scooter offers, each capped at 500 ms; latency of pricingservice as its caller sees it"
        parts.append(f"{title}\n{columns(offers, _OFFERS, _cell)}")
    if others := [row for row in rows if row["endpoint"].startswith("direct-") and row["endpoint"] != "direct-offer"]:
        parts.append(f"What the other callers of pricingservice see\n{columns(others, _OTHERS, _cell)}")
    if added := [row for row in rows if row["stage"] == "added-wait"]:
        title = "What I/O endpoints wait beyond their own time, one core, by its use"
        parts.append(f"{title}\n{columns(added, _ADDED, _cell)}")
    if verdicts:
        parts.append(must_show(verdicts))
    return "\n\n".join(parts)


def sentence(rows: Sequence[Row]) -> str:
    """What was seen, in one sentence; "" when there is nothing to compare."""
    offers = [row for row in rows if row["endpoint"] == "offers"]
    stock = next((row for row in offers if row["contender"] == "gevent"), None)
    fixed = next(
        (row for row in offers if row["contender"] != "gevent" and stock and row["region"] == stock["region"]), None
    )
    if stock is None or fixed is None:
        return ""
    missed = f"{stock['missed']:,} of {stock['samples']:,}" if stock["missed"] else f"none of {stock['samples']:,}"
    left = f"{fixed['missed']:,} of {fixed['samples']:,} are" if fixed["missed"] else f"none of {fixed['samples']:,} is"
    return (
        f"In {stock['region']} the stock server misses {missed} bike and scooter offers, and a rider's screen changes "
        f"{amount(stock['flicker_per_minute'])} times a minute; with {fixed['contender']} {left} missed"
        f"{', and nothing flickers' if fixed['flicker_per_minute'] == 0 else ''}."
    )


def warnings(rows: Sequence[Row]) -> list[str]:
    """What to hold against the figures: a thread could have run and had no core."""
    return _off(rows) + [
        f"{row['contender']} in {row['region']}: its threads waited {share(row['core_wait_frac'])} of the time for a "
        f"core; with threads that is also each other's, else end other programs and run it again"
        for row in rows if row.get("core_wait_frac", 0) > _MOST_WAIT
    ]  # fmt: skip


def _off(rows: Sequence[Row]) -> list[str]:
    """Added wait at another share of the core than was meant."""
    return [
        f"{row['contender']} was to use {share(row['utilisation_frac'])} of a core and used "
        f"{share(row['cpu_utilisation_frac'])}: compare it with care, or measure longer"
        for row in rows
        if row["stage"] == "added-wait" and abs(row["cpu_utilisation_frac"] - row["utilisation_frac"]) > _MOST_OFF
    ]


def _nines(row: Row) -> str:
    if row["nines"] is None:
        return "-"
    return f"{'≥ ' if row['nines_is_bound'] else ''}{row['nines']:.2f}"


def _cell(name: str, value: object) -> str:
    return f"{100 * value:.3f} %" if name == "success_frac" and isinstance(value, float) else cell(name, value)
