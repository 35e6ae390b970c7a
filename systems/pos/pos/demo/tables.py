"""The result as people read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from greenlane_tools.lab.columns import columns
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import amount, factor, milliseconds, share

from . import article

Row = Mapping[str, Any]
_SLOW: Final = (
    ("contender", "contender"), ("merchants", "merchant_class"), ("published", "samples"), ("done", "done"),
    ("done %", "done_frac"), ("p50", "p50_ms"), ("p95", "p95_ms"), ("p95 of done", "p95_done_ms"),
    ("waiting at most", "waiting_max"), ("parked at most", "parked_max"), ("at a merchant at most", "running_max"),
    ("lost", "lost"),
)  # fmt: skip
_FULL: Final = (
    ("contender", "contender"), ("tasks/s", "done_per_s"), ("CPU of a core", "cpu_utilisation_frac"),
    ("CPU ms/task", "cpu_ms_per_job"), ("memory MB", "pss_mb"), ("MB/slot", "pss_mb_per_slot"),
    ("processes", "processes"), ("first task after s", "start_to_first_s"), ("lost", "lost"),
)  # fmt: skip
_ARTICLE: Final = (
    ("contender", "contender"), ("slots", "slots"), ("orders/h", "per_h"),
    ("CPU of a core", "cpu_utilisation_frac"), ("memory MB", "pss_mb"), ("MB/slot", "pss_mb_per_slot"),
    ("lost", "lost"),
)  # fmt: skip
_OFFERED: Final = (*_ARTICLE[:3], ("p95", "p95_ms"), *_ARTICLE[3:])
_SHARES: Final = ("done_frac", "cpu_utilisation_frac")
_NEVER: Final = "never"


def shown(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> str:
    """All tables and verdicts."""
    parts = ["CPU and memory are those of a worker with all its processes; latency is counted from the publish."]
    titles = {
        "slow-merchant": ("Ten merchants, one of them slow: done within 5 s of the last publish", _SLOW),
        "capacity": ("As many orders as each does, 300 ms at the merchant and 3 ms of CPU", _FULL),
        "saturated": ("DoorDash's case, time divided by 10: a queue that never empties", _ARTICLE),
        "offered": ("DoorDash's case: the rates that they printed", _OFFERED),
    }
    for stage, (title, shown_columns) in titles.items():
        if mine := [row for row in rows if row["stage"] == stage]:
            parts.append(f"{title}\n{columns(mine, shown_columns, _cell)}")
    if well := [row for row in rows if row["merchant_class"] == "healthy"]:
        parts.append(_by_publish(well))
    if any(row["stage"] in ("saturated", "offered") for row in rows):
        parts.append(_beside(rows))
        parts.append(
            "What cannot hold in the printed figures\n" + "\n".join(f"- {one}" for one in article.cannot_hold())
        )
    if verdicts:
        parts.append("Must show\n" + "\n".join(verdict.said() for verdict in verdicts))
    return "\n\n".join(parts)


def _by_publish(rows: Sequence[Row]) -> str:
    """Where the cliff is: a line for each contender."""
    width = max(len(row["contender"]) for row in rows)
    lines = [
        f"{row['contender']:<{width}}  " + "  ".join(f"{one['done']}/{one['published']}" for one in row["by_publish"])
        for row in rows
    ]
    return "\n".join(["Orders of healthy merchants that were done, by the 5 s in which they were published", *lines])


def _beside(rows: Sequence[Row]) -> str:
    """What was printed, and what was measured of the same; then how far each worker goes."""
    lines = ["Printed, and measured"]
    for name, per_h, cpu in (
        ("prefork-4", article.BEFORE_PER_H, article.BEFORE_CPU_FRAC),
        ("gevent-200", article.AFTER_PER_H, article.AFTER_CPU_FRAC),
    ):
        lines += [
            f"{name}: {per_h:,.0f} orders/h at {'below ' * (name == 'prefork-4')}{100 * cpu:.0f} % of CPU; "
            f"measured {row['per_h']:,.0f} at {share(row['cpu_utilisation_frac'])}"
            for row in rows if row["contender"] == name and row["stage"] == "offered"
        ]  # fmt: skip
    most = {row["contender"]: row for row in rows if row["stage"] == "saturated"}
    four = most.get("prefork-4")
    for name, row in most.items():
        times = f", {factor(row['per_h'] / four['per_h'])} prefork-4's" if four and row is not four else ""
        memory = f"{amount(row['pss_mb_per_slot'])} MB a slot"
        lines.append(f"{name}: the most that it does is {row['per_h']:,.0f} orders/h{times}, in {memory}")
    return "\n".join(lines)


def _cell(name: str, value: object) -> str:
    if value is None:
        return _NEVER if name.endswith("_ms") and not name.startswith("cpu") else "-"
    if isinstance(value, str):
        return value
    assert isinstance(value, int | float)
    if name in _SHARES:
        return share(value)
    if name.startswith("p") and name.endswith("_ms"):
        return milliseconds(value)
    return f"{value:,.0f}" if name == "per_h" or isinstance(value, int) else amount(value)
