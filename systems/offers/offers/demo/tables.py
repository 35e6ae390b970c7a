"""Rows and verdicts for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from greenlane_tools.lab.columns import columns
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import amount, milliseconds, share

__all__ = ["sentence", "shown", "warnings"]

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
_FRACTIONS: Final = ("wasted_cpu_frac", "cpu_utilisation_frac", "utilisation_frac")


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
        parts.append("Must show\n" + "\n".join(verdict.said() for verdict in verdicts))
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
    """What to hold against the figures: processes had no core because others had them."""
    return _off(rows) + [
        f"{row['contender']} in {row['region']}: its threads waited {share(row['core_wait_frac'])} of the time for a "
        f"core that others had; end other programs and run it again"
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
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    assert isinstance(value, int | float)
    if name == "success_frac":
        return f"{100 * value:.3f} %"
    if name in _FRACTIONS:
        return share(value)
    if name.endswith("_ms"):
        return milliseconds(value)
    return f"{value:,.0f}" if isinstance(value, int) else amount(value)
