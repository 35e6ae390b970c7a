"""conservation.md: the page of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from .contenders import CONTENDERS
from .faults import FAULTS
from .table import LIMIT

_HEAD: Final = """\
# Conservation: every fault, and what became of the orders

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
