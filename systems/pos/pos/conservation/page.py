"""conservation.md: the page of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from .cell import Outcome
from .contenders import CONTENDERS
from .faults import FAULTS

_HEAD: Final = """\
# Conservation: every fault, and what happened to the orders

```sh
cd systems/pos
../../.venv/bin/python -m pos.conservation --soak --page conservation.md
```

"""
_NOTES: Final = """\
*On their way*: the most orders that were published and not carried out when a step of the fault was taken; a fault that
met none is `not struck`. *Dead*: orders in the dead-letter queue, with their history; only faults that make workers
give up may have any. *Twice*: effects doubled. *Repeated*: calls that came when the effect was there, which a merchant
who knows keys answers and does not carry out again. *Seconds*: the longest time in which no order was carried out
anywhere, from the first to the last. An order that a merchant has confirmed and not carried out is done (`deceived`).
"""
_COLUMNS: Final = ("on_their_way", "published", "done", "dead", "lost", "effects_doubled", "calls_repeated")


def page(document: Mapping[str, Any]) -> str:
    """The page of a `--json` object."""
    rows, found = document["rows"], document["environment"]
    where = f"{found['processor']}, {found['cores']} cores, CPython {found['python']}"
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    ours = [row for row in rows if CONTENDERS[row["contender"]].ours]
    total = {name: sum(row[name] for row in ours) for name in ("published", "done", "dead", "lost", "effects_doubled")}
    stuck = sum(row["stuck"] for row in ours)
    said = (
        f"Greenlane's worker, {len(ours)} runs, {total['published']:,} orders: {total['done']:,} done, "
        f"{total['dead']:,} dead letters, {total['lost']:,} lost, {total['effects_doubled']:,} effects doubled. "
        f"{stuck} did not come to rest. {_limits(rows)}Recorded on {where} ({versions})"
    )
    busy = f", while the machine was busy with other work (load {found['load_average_1min']:.0f}).\n\n"
    return (
        _HEAD + said + (busy if found["load_average_1min"] > found["cores"] else ".\n\n") + _table(rows) + "\n" + _NOTES
    )


def _limits(rows: Sequence[Mapping[str, Any]]) -> str:
    limited = [row for row in rows if row["verdict"] == "limit"]
    if not limited:
        return ""
    return f"Stock Celery on Redis lost {sum(row['lost'] for row in limited)}: {LIMIT}. "


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| fault | contender | on their way | published | done | dead | lost | twice | repeated | seconds | |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    order = list(FAULTS)
    for name, group in groupby(sorted(rows, key=lambda row: order.index(row["fault"])), key=lambda row: row["fault"]):
        fault = f"**{name}**: {FAULTS[name].what}"
        for row in group:
            counts = " | ".join(str(row[column]) for column in _COLUMNS)
            lines.append(
                f"| {fault} | `{row['contender']}` | {counts} | {row['standstill_s']:.1f} | {row['verdict']} |"
            )
            fault = ""
    return "\n".join(lines) + "\n"


# --- The table of faults, and the rows of `--json`.

#: Heading, and how it is written; a zero where nothing went wrong is a dot, so that what did stands out.
_COUNTS: Final = (
    "done", "dead", "waiting", "lost", "two_states", "effects_doubled", "calls_repeated", "deceived",
)  # fmt: skip

#: What the verdict `limit` is about.
LIMIT: Final = (
    "Celery's transport takes an order out of Redis and writes down who has it with a later command; one between the "
    "two is lost when the worker or its connection ends"
)


def rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row per contender and fault."""
    return [
        {
            "contender": one.contender,
            "fault": one.fault,
            **vars(one.balance),
            "verdict": one.verdict,
            "recovered_s": round(one.recovered_s, 2),
            "standstill_s": round(one.standstill_s, 2),
            "rest_s": round(one.rest_s, 2),
            "end_s": round(one.end_s, 2),
            "stuck": one.stuck,
            "restarts": one.restarts,
            "exit_codes": list(one.exit_codes),
            "published_again": one.published_again,
            "on_their_way": one.on_their_way,
            "deaths": one.deaths,
        }
        for one in outcomes
    ]


def sentence(outcome: Outcome) -> str:
    """What is not zero, in one line."""
    counts = {name: count for name, count in vars(outcome.balance).items() if count}
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    seconds = {"standstill": outcome.standstill_s, "recovered in": outcome.recovered_s, "rest after": outcome.rest_s}
    took = ", ".join(f"{name} {count:.1f} s" for name, count in seconds.items())
    return f"{outcome.verdict}: {told}; {took}, ended in {outcome.end_s:.1f} s, exit {outcome.exit_codes}"


def table(outcomes: Sequence[Outcome]) -> str:
    """One line per contender and fault, grouped by fault."""
    head = ["fault", "contender", *_COUNTS, "standstill s", "recovered s", "rest s", ""]
    lines = [head]
    last = ""
    for one in sorted(outcomes, key=lambda one: list(FAULTS).index(one.fault)):
        counts = [str(getattr(one.balance, name) or ".") for name in _COUNTS]
        lines.append(
            [one.fault if one.fault != last else "", one.contender, *counts,
             f"{one.standstill_s:.1f}", f"{one.recovered_s:.1f}", f"{one.rest_s:.1f}", one.verdict]
        )  # fmt: skip
        last = one.fault
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    padded = ["  ".join(_padded(at, cell, widths[at]) for at, cell in enumerate(line)).rstrip() for line in lines]
    beyond = {f"{one.fault}: {FAULTS[one.fault].beyond}" for one in outcomes if FAULTS[one.fault].beyond}
    beyond |= {f"limit: {LIMIT}" for one in outcomes if one.verdict == "limit"}
    return "\n".join([*padded, *sorted(beyond)])


def _padded(column: int, cell: str, width: int) -> str:
    return cell.ljust(width) if column < 2 else cell.rjust(width)
