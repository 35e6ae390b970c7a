"""One row a cell: a contender in a region; below it one for each kind of its other requests."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import add
from typing import Any, Final

import numpy as np

from greenlane_tools.lab import verdict
from greenlane_tools.lab.demo import MOST_EXACT, Json, cell, columns, must_show
from greenlane_tools.lab.environment import usable_cores
from greenlane_tools.lab.samples import UNANSWERED
from greenlane_tools.lab.statistics import bootstrap, quantile, wilson
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import amount, milliseconds, share
from offers.contenders import FIXES
from offers.demo.riders import changes_per_minute
from offers.demo.turn import Counts, Turn
from offers.load import OFFERS
from offers.site import CAP_MS

#: Modes whose price pricingservice makes.
BIKES: Final = tuple(name.removesuffix("_price") for name in OFFERS)
#: Misses come in groups: neighbouring polls share a fate, windows of this length do not.
_WINDOW_S: Final = 5.0
#: At zero failures of n the share of failures is below 3 / n (95 %, one-sided).
_NONE_SEEN: Final = 3.0
_FIX: Final = {contender: fix for fix, contender in FIXES.items()}


def rows_of(turns: Sequence[Turn]) -> list[Json]:
    """Cells in the order in which they were first run; repetitions are pooled."""
    cells: dict[tuple[str, str], list[Turn]] = {}
    for one in turns:
        cells.setdefault((one.region, one.contender), []).append(one)
    return [row for runs in cells.values() for row in (_offers(runs), *_others(runs))]


def _offers(runs: Sequence[Turn]) -> Json:
    counts: Counts = functools.reduce(add, (run.counts for run in runs))
    seconds = sum(run.seconds for run in runs)
    missed = counts.ended - counts.made
    # Of polls that nobody answered; they have been counted as failed.
    lost = len(BIKES) * sum(not poll.is_answered for run in runs for poll in run.polls)
    low, high = success(runs)
    exact, is_bound = nines(counts.made, counts.ended)
    return {
        **_key(runs[0], "offers"),
        "offered_per_s": counts.asked / seconds, "done_per_s": counts.made / seconds, "samples": counts.ended,
        "success_frac": counts.made / counts.ended if counts.ended else None,
        "success_low_frac": low, "success_high_frac": high, "missed": missed,
        "nines": exact, "nines_is_bound": is_bound, "within_deadline_frac": counts.made / max(1, counts.ended),
        **percentiles(counts),
        "late": counts.late, "errors": counts.refused + counts.failed - lost, "lost": lost,
        "timeouts_per_s": counts.late / seconds, **_polled(runs),
        "flicker_per_minute": sum(changes_per_minute(run.polls) for run in runs) / len(runs),
        **_cpu(runs),
    }  # fmt: skip


def _polled(runs: Sequence[Turn]) -> Json:
    """What riders wait for a whole answer since the poll was due: nothing hides before offerservice's clock."""
    took = sorted(poll.took_ms for run in runs for poll in run.polls)
    return {name: quantile(took, share) if took else None for name, share in _POLLED}


def _cpu(runs: Sequence[Turn]) -> Json:
    """CPU is that of pricingservice with all its processes, for everything that it did."""
    cpu_ms = sum(run.used.cpu_ns for run in runs) / 1e6
    wasted_ms = sum(
        max(0.0, run.offers_worked - run.offers_direct - run.counts.made) * run.offer_cpu_ms for run in runs
    )
    jobs = sum(run.counts.ended + sum(map(len, run.others.values())) for run in runs)
    wall_ns = sum(run.used.wall_ns for run in runs)
    return {
        "wasted_cpu_frac": wasted_ms / cpu_ms if cpu_ms else None, "cpu_utilisation_frac": cpu_ms * 1e6 / wall_ns,
        "core_wait_frac": sum(run.used.core_wait_ns for run in runs) / wall_ns,
        "machine_busy_frac": sum(run.used.machine_ns for run in runs) / wall_ns / usable_cores(),
        "cpu_ms_per_job": cpu_ms / max(1, jobs), "offer_cpu_ms": _mean([run.offer_cpu_ms for run in runs]),
        "pss_mb": max(run.used.pss_mb for run in runs), "processes": max(run.used.processes for run in runs),
    }  # fmt: skip


def _others(runs: Sequence[Turn]) -> list[Json]:
    kinds = dict.fromkeys(kind for run in runs for kind in run.others)
    return [_of_kind(runs, kind) for kind in sorted(kinds)]


def _of_kind(runs: Sequence[Turn], kind: str) -> Json:
    requests = [one for run in runs for one in run.others.get(kind, [])]
    lost = sum(status == UNANSWERED for status, _ in requests)
    # Who was given up took at least so long: leaving it out would make a slow server look fast.
    took = sorted(latency_ms for status, latency_ms in requests if status in (200, UNANSWERED))
    seconds = sum(run.seconds for run in runs)
    return {
        **_key(runs[0], f"direct-{kind}"),
        "offered_per_s": len(requests) / seconds, "done_per_s": (len(took) - lost) / seconds, "samples": len(took),
        **{name: quantile(took, share) if len(took) >= least else None for name, share, least in _SHARES},
        "errors": len(requests) - len(took), "lost": lost,
    }  # fmt: skip


_POLLED: Final = (("poll_p50_ms", 0.5), ("poll_p99_ms", 0.99))
_SHARES: Final = (
    ("p50_ms", 0.5, 1), ("p95_ms", 0.95, 1), ("p99_ms", 0.99, 1), ("p999_ms", 0.999, MOST_EXACT),
)  # fmt: skip


def percentiles(counts: Counts) -> Json:
    """Of pricingservice's offers, from the sending of the request; p99.9 only from 10,000 samples."""
    return {
        name: counts.quantile_ms(share) if counts.samples >= least else None for name, share, least in _SHARES
    }  # fmt: skip


def success(runs: Sequence[Turn]) -> tuple[float, float]:
    """The 95 % interval of the share of bike and scooter offers that were made.

    The wider of two: Wilson's, which takes offers for independent, and a bootstrap over windows of five seconds, since
    what is late is late together.
    """
    made = sum(run.counts.made for run in runs)
    low, high = wilson(made, sum(run.counts.ended for run in runs))
    windows = _windows(runs)
    if len(windows) > 1:
        at = bootstrap(windows, _mean_of)
        low, high = min(low, max(0.0, at.low)), max(high, min(1.0, at.high))
    return low, high


def _mean_of(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(values.mean())


def _windows(runs: Sequence[Turn]) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    found: dict[tuple[int, int], list[float]] = {}
    for number, run in enumerate(runs):
        for poll in run.polls:
            window = found.setdefault((number, int(poll.due_s // _WINDOW_S)), [])
            window += [float(mode in poll.made) for mode in BIKES if mode in poll.made or mode in poll.missing]
    return [np.array(window) for window in found.values() if window]


def nines(made: int, ended: int) -> tuple[float | None, bool]:
    """−log10 of the share that was missed, and False; at no miss what the sample's size says at least, and True."""
    if not ended:
        return None, True
    if made < ended:
        return abs(math.log10(1 - made / ended)), False
    return max(0.0, math.log10(ended / _NONE_SEEN)), True


def _key(run: Turn, endpoint: str) -> Json:
    return {
        "contender": run.contender, "region": run.region, "fix": _FIX.get(run.contender), "endpoint": endpoint,
        "stage": "offers", "deadline_ms": CAP_MS if endpoint == "offers" else None,
    }  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# --- What must be shown of offers, against what was measured in the same run.


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
