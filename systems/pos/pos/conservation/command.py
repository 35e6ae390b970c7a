"""`python -m pos.conservation`: every contender under every fault, and the table.

main(argv, out, err) -> exit code    0 greenlane's books are even; 1 they are not, or the run failed;
                                     2 a wrong option, 130 Ctrl-C
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from greenlane.errors import SettingsError
from greenlane_tools.lab import demo
from greenlane_tools.lab.arguments import Values, each_of, number, one_of, options, path, some_of, switch, whole
from greenlane_tools.lab.environment import about
from pos.conservation.brokers import SharedRabbitMQ
from pos.conservation.cell import Cell, Outcome, Plan
from pos.conservation.contenders import CONTENDERS, Contender
from pos.conservation.faults import FAULTS, Fault

# --- Options of `python -m pos.conservation`.


ATTEMPTED: Final = "run pos.conservation"
_HINT: Final = "python -m pos.conservation --help"
_DEFAULT: Final = ("gevent-200-early", "gevent-200", "greenlane", "greenlane-green")
_WELL: Final = "a merchant's latency without faults, within a call's time limit"
_SOAK: Final = "the faults and contenders of `make soak`, 330 orders each, 100 a second: 20 minutes to an hour"


@dataclass(frozen=True)
class Options:
    """As the flags name them; None = as `--soak` sets it, or as the help says."""

    orders: int | None = whole(None, 1, 1_000_000, "orders for each contender and fault (2000)")
    rate: float | None = number(None, 0.1, 100_000, "most orders published a second (300)")
    latency_ms: float | None = number(None, 0, 1_999, f"{_WELL} (50)")
    contenders: tuple[str, ...] = some_of(
        (*CONTENDERS, "all"), _DEFAULT, f"some of {', '.join(CONTENDERS)}, or all ({', '.join(_DEFAULT)})"
    )
    faults: tuple[str, ...] | None = each_of(
        (*FAULTS, "all"), "; ".join(f"{fault.name}: {fault.what}" for fault in FAULTS.values())
    )
    soak: bool = switch(_SOAK)
    queues: Literal["classic", "quorum"] = one_of(("classic", "quorum"), "RabbitMQ's kind of queue")
    plain: bool = switch("a third of the merchants has no status query and ignores idempotency keys")
    json: bool = switch("one object instead of the table")
    page: Path | None = path(None, "also write the page of this run (conservation.md)")
    out: Path | None = path(None, "keep the logs of workers and broker in this folder")

    @property
    def plan(self) -> Plan:
        """What each contender meets."""
        usual = (ORDERS, RATE_PER_S, LATENCY_MS) if self.soak else (2_000, 300.0, 50.0)
        given = (self.orders, self.rate, self.latency_ms)
        orders, rate, latency_ms = (one if each is None else each for one, each in zip(usual, given, strict=True))
        kinds = ("asked", "keyed", "plain") if self.plain else ("asked", "keyed")
        return Plan(int(orders), rate, kinds=kinds, latency_ms=latency_ms, queues=self.queues)

    @property
    def cells(self) -> list[tuple[Fault, Contender]]:
        """Which fault meets which contender, in this order."""
        if self.soak:
            return [(FAULTS[fault], CONTENDERS[contender]) for fault, contender in CELLS]
        faults = FAULTS if "all" in (self.faults or ("all",)) else self.faults or ()
        met = itertools.product(faults, CONTENDERS if "all" in self.contenders else self.contenders)
        return [(FAULTS[fault], CONTENDERS[one]) for fault, one in met if FAULTS[fault].meets(CONTENDERS[one])]


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, a value outside its rule, or no fault that applies.
    """
    said = (
        "Sends orders through a real RabbitMQ to real workers and ten merchants, injects faults, and checks the "
        "balance: each order ended once, and its merchant saw it once."
    )
    found = options(Options, Values(ATTEMPTED, _HINT), "python -m pos.conservation", said, argv)
    if isinstance(found, str):
        return found
    made = Options(**found[0])
    if not made.cells:
        rule = "a fault that applies to these contenders"
        raise SettingsError("--faults", ",".join(made.faults or ()), rule, _HINT, attempted=ATTEMPTED)
    return made


# --- Which contender meets which fault in a soak, and how many orders each: more than 20,000 in all.
# Every fault that Greenlane is to withstand, with threads; with green threads all but those of merchants, who do not
# know the difference; other stores and other queues under what strikes them. And a stock worker that acknowledges
# early, which must be seen to lose: a balance that does not see that sees nothing.

#: Orders of each cell.
ORDERS: Final = 330
#: At most this many published a second.
RATE_PER_S: Final = 100.0
#: What merchants take when all is well: some 20 orders are on their way when a fault strikes.
LATENCY_MS: Final = 200.0
_WHERE: Final = {
    "store-redis": ("worker-kill", "store-kill", "store-freeze"),
    "store-postgres": ("worker-kill", "store-kill", "store-freeze", "mixed"),
    "quorum": ("worker-kill-ack", "broker-kill", "broker-freeze", "broker-half", "dead-letters", "mixed"),
    "broker-redis": ("worker-kill-last", "worker-freeze", "broker-kill", "broker-freeze", "broker-cut", "mixed"),
}
_ALL: Final = [name for name, fault in FAULTS.items() if not fault.beyond and fault.meets(CONTENDERS["greenlane"])]
CELLS: Final = [
    *((name, "greenlane") for name in _ALL),
    *((name, "greenlane-green") for name in _ALL if not name.startswith("merchant-")),
    # In turn with threads and green threads.
    *(
        (name, f"greenlane{'-green' if number % 2 else ''}-{what}")
        for what, names in _WHERE.items()
        for number, name in enumerate(names)
    ),
    ("worker-kill-last", "gevent-200-early"),
]


# --- conservation.md: the page of a run.


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


SCHEMA: Final = "greenlane.pos-conservation/1"
_PACKAGES: Final = ("greenlane", "celery", "kombu", "amqp", "gevent", "requests")


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs it. Blocks until all is done or Ctrl-C; no process of it is left afterwards."""
    return demo.run(argv, out, err, ATTEMPTED, parse, _run)


def _run(options: Options, out: TextIO, err: TextIO) -> int:
    outcomes = _measured(options, err)
    if options.page:
        options.page.write_text(page(told(outcomes)), encoding="utf-8")
    if options.json:
        out.write(json.dumps(told(outcomes), indent=1) + "\n")
    else:
        out.write(table(outcomes) + "\n")
    ours = [one for one in outcomes if CONTENDERS[one.contender].ours and not FAULTS[one.fault].beyond]
    return 0 if all(one.verdict in ("even", "limit") for one in ours) else 1


def told(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The object of `--json`."""
    return {"schema": SCHEMA, "environment": about(_PACKAGES), "rows": rows(outcomes)}


def _measured(options: Options, err: TextIO) -> list[Outcome]:
    outcomes, cells = [], options.cells
    with _folder(options.out) as folder, SharedRabbitMQ(folder / "broker") as broker:
        for number, (fault, contender) in enumerate(cells, 1):
            err.write(f"{number}/{len(cells)} {fault.name}, {contender.name}: {fault.what}\n")
            err.flush()
            name = f"{contender.name}.{fault.name}"
            outcomes.append(Cell(folder / name, broker, contender, fault, options.plan).run())
            err.write(f"    {sentence(outcomes[-1])}\n")
            err.flush()
    return outcomes


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    """Where logs go; a temporary folder is removed."""
    if wanted is not None:
        yield wanted.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="pos-conservation-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
